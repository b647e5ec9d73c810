"""Masks recovered from what calls were given: their names, fills and counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attn_cli.models.hf.mask_keeper import Kind, SeenMask
from attn_cli.workflows.model.masks import keys_per_row, pairs, read_seen

Array = NDArray[Any]
LOWEST = float(np.finfo(np.float32).min)


def seen(kind: Kind, array: Array | None, queries: int, keys: int, batch: int = 1) -> SeenMask:
    return SeenMask(
        kind=kind,
        array=array,
        dtype="" if array is None else str(array.dtype),
        shape=() if array is None else array.shape,
        batch=batch,
        queries=queries,
        keys=keys,
    )


def causal(length: int, window: int | None = None) -> Array:
    distance = np.subtract.outer(np.arange(length), np.arange(length))
    keep: Array = (distance >= 0) & (distance < (window or length))
    return keep[None, None]


@pytest.mark.parametrize(
    "array, name",
    [
        (causal(8), "causal"),
        (causal(8, 3), "window(3)"),
        (np.ones((1, 1, 8, 8), bool), "hides nothing"),
        (causal(8) & (np.arange(8) < 5), "causal & padding(5)"),
    ],
)
def test_a_known_mask_has_its_expression(array: Array, name: str) -> None:
    assert read_seen(seen("bool", array, 8, 8)).words == name
    added = np.where(array, 0, LOWEST).astype(np.float32)
    if not array.all():  # zeros alone say nothing of a fill
        read = read_seen(seen("additive", added, 8, 8))
        assert (read.words, read.fill) == (name, "finfo(float32).min")


def test_padding_names_the_length_of_every_item() -> None:
    keep = np.arange(6) < np.array([6, 4])[:, None]
    array = np.broadcast_to(keep[:, None, None], (2, 1, 6, 6))
    mask = seen("bool", array, 6, 6, batch=2)
    read = read_seen(mask)
    assert (read.words, read.expression) == ("padding(6, 4)", "padding(6, 4)")
    assert pairs(mask, read) == (60, 72)
    real = np.array([[True] * 6, [True] * 4 + [False] * 2])
    assert keys_per_row(mask, read, real) == (4, 6)


def test_what_the_backend_hides_by_itself_is_upper_left() -> None:
    read = read_seen(seen("is_causal", None, 3, 5))
    assert (read.expression, read.align) == ("causal", "upper-left")
    assert read.visible is not None
    np.testing.assert_array_equal(read.visible[0, 0].sum(1), [1, 2, 3])
    assert read_seen(seen("is_causal", None, 4, 4)).align is None


def test_no_mask_is_said_as_such() -> None:
    mask = seen("none", None, 3, 5)
    read = read_seen(mask)
    assert read.visible is None
    assert pairs(mask, read) == (15, 15)


def test_an_unknown_mask_has_no_name() -> None:
    array = np.random.default_rng(1).random((1, 1, 9, 9)) < 0.5
    read = read_seen(seen("bool", array, 9, 9))
    assert read.expression is None
    assert "no mask" in read.words


def test_a_mask_the_wrong_way_round_is_not_called_causal() -> None:
    read = read_seen(seen("bool", ~causal(8), 8, 8))
    assert read.expression is None
    assert read.words == "causal with True = hidden (the polarity of nn.MultiheadAttention)"


def test_a_weak_fill_is_odd() -> None:
    array = np.where(causal(6), 0, -10.0).astype(np.float32)
    assert [finding.code for finding in read_seen(seen("additive", array, 6, 6)).findings] == [
        "weak-fill"
    ]
