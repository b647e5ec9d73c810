"""file_masks, mask_kind, mask_axes: what the masks of a file hide, by name, values and shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attn_cli.core.masks import TileKind
from attn_cli.errors import InputError
from attn_cli.recognize.reading import Reading
from tests.unit.recognize.dumps import codes, dump_of, normal, qkv, read, said

B, H, L, S = 2, 3, 4, 5
Array = NDArray[Any]


def masked(settings: dict[str, Any] | None = None, **arrays: Array) -> Reading:
    """q, k and v of (B, H, L, S) scores with these arrays beside them."""
    everything = qkv((B, H, L, 6), (B, H, S, 6)) | arrays
    return read(dump_of(**everything), **(settings or {}))


def keep(reading: Reading) -> Array:
    return reading.inputs.keep()


def coin(*shape: int) -> NDArray[np.bool_]:
    return np.random.default_rng(5).random(shape) < 0.5


def test_a_bool_mask_keeps_what_is_true() -> None:
    mask = coin(L, S)
    reading = masked(mask=mask)
    np.testing.assert_array_equal(keep(reading), np.broadcast_to(mask, (B, H, L, S)))
    assert said(reading, "mask-kind") == "mask is bool over (query, key): True = may attend"


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float32, np.float64])
def test_zeros_and_ones_keep_the_ones(dtype: type) -> None:
    mask = coin(L, S)
    reading = masked(mask=mask.astype(dtype))
    np.testing.assert_array_equal(keep(reading)[1, 2], mask)
    assert said(reading, "mask-kind").endswith("over (query, key): 1 = may attend")


@pytest.mark.parametrize("dtype", [np.bool_, np.int64, np.float64])
def test_the_polarity_may_be_told(dtype: type) -> None:
    mask = coin(L, S)
    reading = masked({"mask_means": "hidden"}, mask=mask.astype(dtype))
    np.testing.assert_array_equal(keep(reading)[0, 0], ~mask)
    assert "= hidden, as --mask-means says" in said(reading, "mask-kind")


def test_negative_numbers_are_added_as_they_stand() -> None:
    mask = np.where(coin(L, S), 0.0, -np.inf)
    mask[0, 0], mask[1, 1] = -1e9, np.nan
    reading = masked(mask=mask)
    assert reading.inputs.mask is None
    np.testing.assert_array_equal(reading.inputs.added(1)[2], mask)
    assert said(reading, "mask-kind") == "mask is float64 over (query, key): added to the scores"


def test_integers_may_be_additive() -> None:
    reading = masked(mask=np.where(coin(L, S), 0, -10000))
    assert reading.inputs.additive is not None
    assert reading.inputs.additive.dtype == np.float64
    assert reading.inputs.additive.min() == -10000


def test_float_zeros_are_never_guessed() -> None:
    zeros = np.zeros((L, S))
    with pytest.raises(InputError, match="mask is all 0") as caught:
        masked(mask=zeros)
    assert "--mask-means additive" in caught.value.hint
    assert masked({"mask_means": "additive"}, mask=zeros).inputs.mask is None
    assert not keep(masked({"mask_means": "keep"}, mask=zeros)).any()


@pytest.mark.parametrize("dtype", [np.bool_, np.int32])
def test_zeros_that_cannot_be_added_hide_everything(dtype: type) -> None:
    assert not keep(masked(mask=np.zeros((L, S), dtype))).any()


@pytest.mark.parametrize(
    "values, told, words",
    [
        ([0.0, 0.5], None, "holds 0.5, so it is not 0 and 1"),
        ([0, 255], None, "holds 255"),
        ([0.0, -1e9], "keep", r"holds -1e\+09: a mask that means keep is bool, or 0 and 1"),
        ([0, 2], "hidden", "holds 2: a mask that means hidden"),
        ([False, True], "additive", "mask is bool: an additive mask holds numbers"),
    ],
)
def test_values_that_contradict_or_say_nothing(
    values: list[Any], told: str | None, words: str
) -> None:
    mask = np.resize(np.array(values), (L, S))
    with pytest.raises(InputError, match=words):
        masked({"mask_means": told}, mask=mask)


def test_a_soft_mask_is_added_when_told() -> None:
    reading = masked({"mask_means": "additive"}, mask=np.full((L, S), 0.5))
    np.testing.assert_array_equal(reading.inputs.added(0), np.full((H, L, S), 0.5))


@pytest.mark.parametrize("dtype", [np.bool_, np.int64, np.float32])
def test_a_key_padding_mask_hides_what_is_true(dtype: type) -> None:
    mask = coin(B, S)
    reading = masked(key_padding_mask=mask.astype(dtype))
    np.testing.assert_array_equal(keep(reading)[:, 1, 2], ~mask)
    assert "(batch, key)" in said(reading, "mask-kind")
    assert "= hidden, as in torch.nn.MultiheadAttention" in said(reading, "mask-kind")


def test_a_key_padding_mask_may_be_additive() -> None:
    mask = np.where(coin(B, S), 0.0, -np.inf)
    np.testing.assert_array_equal(masked(key_padding_mask=mask).inputs.added()[:, 2, 3], mask)


def test_mask_means_is_about_masks_whose_name_leaves_it_open() -> None:
    mask, padding = coin(L, S), coin(B, S)
    reading = masked({"mask_means": "hidden"}, mask=mask, key_padding_mask=padding)
    np.testing.assert_array_equal(keep(reading)[1, 0], ~mask & ~padding[1])
    with pytest.raises(InputError, match="--mask-means says how an array called mask"):
        masked({"mask_means": "keep"}, key_padding_mask=padding)


def test_a_padding_mask_does_not_tell() -> None:
    mask = coin(B, S)
    with pytest.raises(InputError, match="padding_mask does not say what True means"):
        masked(padding_mask=mask)
    reading = masked({"mask_means": "keep"}, padding_mask=mask)
    np.testing.assert_array_equal(keep(reading)[:, 0, 0], mask)


@pytest.mark.parametrize("shape", [(B, S), (B, 1, 1, S), (B, H, L, S), (B, 1, L, S)])
def test_an_attention_mask_keeps_the_ones(shape: tuple[int, ...]) -> None:
    mask = coin(*shape)
    reading = masked(attention_mask=mask.astype(np.int64))
    spread = mask[:, np.newaxis, np.newaxis] if len(shape) == 2 else mask
    np.testing.assert_array_equal(keep(reading), np.broadcast_to(spread, (B, H, L, S)))


def test_an_attention_mask_with_finfo_min_is_added() -> None:
    least = np.finfo(np.float32).min
    mask = np.where(coin(B, 1, 1, S), 0, least).astype(np.float32)
    reading = masked(attention_mask=mask, additive_mask=np.full((L, S), least))
    # Twice the least float32 is a number in float64: nothing turns into −inf on the way.
    assert reading.inputs.added().min() == 2 * float(least)


def test_an_additive_mask_of_zeros_hides_nothing() -> None:
    reading = masked(additive_mask=np.zeros((L, S)))
    assert reading.inputs.visible() is None
    with pytest.raises(InputError, match="additive_mask is bool"):
        masked(additive_mask=coin(L, S))


def test_all_masks_must_let_a_key_through() -> None:
    mask, padding = coin(H, L, S), coin(B, S)
    reading = masked({"masks": ("sink(3)",)}, mask=mask, key_padding_mask=padding)
    expected = mask & ~padding[:, np.newaxis, np.newaxis] & (np.arange(S) < 3)
    np.testing.assert_array_equal(keep(reading), expected)
    assert reading.settings.mask == "sink(3)"


def test_tiles_of_an_array_are_told_from_its_content() -> None:
    mask = np.ones((L, S), bool)
    mask[2:, 3:] = False
    reading = masked({"align": "lower-right"}, mask=mask)
    offset = reading.inputs.q_offset
    built = reading.inputs.mask
    assert built is not None
    assert offset == 1
    assert built.tile(0, 0, range(1, 3), range(S)) is TileKind.FULL
    assert built.tile(0, 0, range(3, 5), range(3, 5)) is TileKind.EMPTY
    assert built.tile(0, 0, range(1, 5), range(S)) is TileKind.MIXED


@pytest.mark.parametrize(
    "shape, axes",
    [
        ((S,), "key"),
        ((L, S), "query, key"),
        ((1, S), "query, key"),
        ((L, 1), "query, key"),
        ((B, S), "batch, key"),
        ((B, L, S), "batch, query, key"),
        ((H, L, S), "head, query, key"),
        ((H, 1, S), "head, query, key"),
        ((B * H, L, S), "batch·head, query, key"),
        ((1, H, L, S), "batch, head, query, key"),
    ],
)
def test_shapes_and_what_they_stand_for(shape: tuple[int, ...], axes: str) -> None:
    mask = coin(*shape)
    reading = masked(mask=mask)
    assert f"over ({axes})" in said(reading, "mask-kind")
    by_hand = {
        "batch, key": mask.reshape(-1, 1, 1, mask.shape[-1]),
        "batch, query, key": mask[:, np.newaxis],
        "batch·head, query, key": mask.reshape(-1, H, L, S) if mask.size == B * H * L * S else mask,
    }.get(axes, mask)
    np.testing.assert_array_equal(keep(reading), np.broadcast_to(by_hand, (B, H, L, S)))


@pytest.mark.parametrize("shape", [(L, 4), (3, S), (4, L, S), (B, L, L), (1, 1, B, L, S), ()])
def test_a_mask_that_does_not_broadcast_names_both_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError) as caught:
        masked(mask=np.ones(shape, bool))
    assert f"mask has shape {shape}" in caught.value.message
    assert "(2, 3, 4, 5) (batch, head, query, key)" in caught.value.message


def test_a_square_mask_of_as_many_items_as_queries_asks_which() -> None:
    arrays = qkv((3, 3, 6), (3, 5, 6)) | {"mask": coin(3, 5)}
    with pytest.raises(InputError, match=r"fits \(query, key\) and \(batch, key\)") as caught:
        read(dump_of(**arrays))
    assert caught.value.hint == "pass --mask-axes query,key or --mask-axes batch,key"
    by_query = read(dump_of(**arrays), mask_axes="query,key")
    np.testing.assert_array_equal(keep(by_query)[2, 0], arrays["mask"])
    by_item = read(dump_of(**arrays), mask_axes="batch,key")
    np.testing.assert_array_equal(keep(by_item)[:, 0, 2], arrays["mask"])


def test_three_axes_of_as_many_items_as_heads_ask_which() -> None:
    arrays = qkv((3, 3, 4, 6)) | {"mask": coin(3, 4, 4)}
    with pytest.raises(InputError, match=r"\(batch, query, key\) and \(head, query, key\)"):
        read(dump_of(**arrays))
    heads = read(dump_of(**arrays), mask_axes="head,query,key")
    np.testing.assert_array_equal(keep(heads)[2], arrays["mask"])


def test_a_single_row_is_the_same_either_way() -> None:
    arrays = qkv((1, 6), (5, 6)) | {"mask": coin(1, 5)}
    np.testing.assert_array_equal(keep(read(dump_of(**arrays)))[0, 0], arrays["mask"])


def test_mask_axes_that_no_mask_has_are_a_mistake() -> None:
    with pytest.raises(
        InputError, match=r"--mask-axes is batch,key, and .*\(batch,head,query,key\)"
    ):
        masked({"mask_axes": "batch,key"}, mask=coin(B, H, L, S))
    with pytest.raises(InputError, match="there is no mask array"):
        masked({"mask_axes": "batch,key"})
    idle = dump_of(**qkv((L, S)), settings={"mask_axes": "batch,key", "mask_means": "keep"})
    assert read(idle).inputs.mask is None


@pytest.mark.parametrize("shape", [(L, S), (H, L, S), (1, H, L, S), (B, 1, 1, S)])
def test_a_bias_is_over_queries_and_keys(shape: tuple[int, ...]) -> None:
    bias = normal(*shape)
    inputs = masked(attn_bias=bias).inputs
    np.testing.assert_array_equal(inputs.biased_by(1), np.broadcast_to(bias, (B, H, L, S))[1])
    assert inputs.visible() is None


@pytest.mark.parametrize("shape", [(S,), (B, S), (B, L, S), (L, L)])
def test_a_bias_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="bias has shape"):
        masked(bias=normal(*shape))


def test_minus_infinity_in_a_bias_hides() -> None:
    bias = normal(H, L, S)
    bias[0, 1, 2] = -np.inf
    reading = masked(bias=bias)
    visible = reading.inputs.visible()
    assert visible is not None
    assert not visible[:, 0, 1, 2].any()
    assert visible.sum() == B * (H * L * S - 1)
    np.testing.assert_array_equal(reading.inputs.biased_by(0) + reading.inputs.added(0), bias)
    assert "bias-hides" in codes(reading)


def test_sinks_are_one_a_head() -> None:
    sinks = np.array([0.5, -1.0, 2.0])
    np.testing.assert_array_equal(masked(sinks=sinks).inputs.sinks, sinks)
    with pytest.raises(InputError, match=r"sinks has shape \(2,\)"):
        masked(sinks=np.zeros(2))


def test_a_mask_of_an_odd_dtype_or_without_entries_is_refused() -> None:
    with pytest.raises(InputError, match="mask has shape"):
        masked(mask=np.zeros((0, S), bool))
    with pytest.raises(InputError, match="mask has dtype complex128"):
        masked(mask=np.zeros((L, S), complex))
