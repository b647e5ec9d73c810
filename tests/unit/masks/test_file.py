"""file: an array as a mask; it must be bool or 0/1 and fit the scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attn_cli.core.masks import BoolArray, MaskContext, TileKind, evaluate
from attn_cli.errors import InputError, UnsupportedError
from attn_cli.masks.expression import parse

B, H, L, S = 2, 3, 4, 5


def build(array: NDArray[Any], q_offset: int = 0) -> BoolArray:
    """file("m.npy") over the whole (B, H, L, S), where m.npy holds the array."""
    files = {"m.npy": array}
    context = MaskContext(
        batch=B, heads=H, queries=L, keys=S, q_offset=q_offset, load=files.__getitem__
    )
    mask = parse('file("m.npy")').build(context)
    queries = range(q_offset, q_offset + L)
    return evaluate(mask, batch=B, heads=H, queries=queries, keys=range(S))


def coin(*shape: int) -> BoolArray:
    return np.random.default_rng(5).random(shape) < 0.5


@pytest.mark.parametrize("q_offset", [-2, 0, 1])
def test_two_axes_are_query_and_key(q_offset: int) -> None:
    array = coin(L, S)
    np.testing.assert_array_equal(build(array, q_offset), np.broadcast_to(array, (B, H, L, S)))


def test_three_axes_begin_with_the_batch() -> None:
    array = coin(B, L, S)
    seen = build(array)
    for head in range(H):
        np.testing.assert_array_equal(seen[:, head], array)


@pytest.mark.parametrize("shape", [(B, H, L, S), (B, 1, 1, S), (1, H, L, S), (1, 1, L, 1)])
def test_four_axes_broadcast(shape: tuple[int, ...]) -> None:
    array = coin(*shape)
    np.testing.assert_array_equal(build(array), np.broadcast_to(array, (B, H, L, S)))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float64", ">i4"])
def test_ones_are_kept_whatever_the_dtype(dtype: str) -> None:
    array = coin(L, S)
    np.testing.assert_array_equal(build(array.astype(dtype))[0, 0], array)


@pytest.mark.parametrize(
    "array, message",
    [
        (np.where(np.tri(L, S) > 0, 0.0, -np.inf), "holds -inf.*additive"),
        (np.where(np.tri(L, S) > 0, 0, -10000), "holds -10000.*additive"),
        (np.full((L, S), np.nan), "holds nan"),
        (np.full((L, S), 255, dtype=np.uint8), "holds 255"),
        (np.zeros((L, S)), "floats that are all 0"),
        (np.zeros((L, S), dtype=complex), "complex128"),
        (np.full((L, S), "x"), "<U1"),
        (coin(S), r"shape \(5,\), and the scores are \(2, 3, 4, 5\)"),
        (coin(S, L), r"shape \(5, 4\), and the scores are \(2, 3, 4, 5\)"),
        (coin(H, L, S), r"shape \(3, 4, 5\)"),
        (coin(1, B, H, L, S), r"shape \(1, 2, 3, 4, 5\)"),
    ],
)
def test_what_is_no_mask_or_does_not_fit(array: NDArray[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(array)


def test_integers_that_are_all_0_hide_everything() -> None:
    assert not build(np.zeros((L, S), dtype=np.int8)).any()


def test_a_tile_looks_into_the_array() -> None:
    array = np.zeros((L, S), dtype=bool)
    array[2:, :3] = True
    context = MaskContext(batch=B, heads=H, queries=L, keys=S, q_offset=1, load=lambda path: array)
    mask = parse("file('m.npy')").build(context)
    assert mask.tile(1, 2, range(3, 5), range(3)) is TileKind.FULL
    assert mask.tile(1, 2, range(1, 3), range(3)) is TileKind.EMPTY
    assert mask.tile(1, 2, range(2, 4), range(3)) is TileKind.MIXED


def test_without_a_reader_there_is_no_file() -> None:
    with pytest.raises(UnsupportedError, match=r"m\.npy"):
        parse("file('m.npy')").build(MaskContext(batch=1, heads=1, queries=1, keys=1))
