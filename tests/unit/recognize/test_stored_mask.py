"""Somebody's mask: its kind, its fills, and what no mask should hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attn_cli.core.dump import Dump
from attn_cli.errors import InputError
from attn_cli.recognize.mask_fills import numbers_of
from attn_cli.recognize.stored_mask import StoredMask, read_mask

CAUSAL = np.tril(np.ones((6, 6), np.bool_))


def dump(dtype: str | None = None, /, **arrays: Any) -> Dump:
    """A file with these arrays; one called x alone has no name there."""
    unnamed = set(arrays) == {"x"}
    held = {name: np.asarray(array) for name, array in arrays.items()}
    dtypes = {name: dtype or array.dtype.name for name, array in held.items()}
    return Dump("m.npz", "npz", held, dtypes, "0" * 64, unnamed=unnamed)


def filled(value: float, dtype: str = "float64") -> NDArray[Any]:
    return np.where(CAUSAL, 0, value).astype(dtype)


def codes(stored: StoredMask) -> list[str]:
    return [finding.code for finding in stored.findings]


@pytest.mark.parametrize("dtype", ["bool", "int64", "uint8", "float32"])
def test_true_and_one_are_kept(dtype: str) -> None:
    stored = read_mask(dump(x=CAUSAL.astype(dtype)))
    np.testing.assert_array_equal(stored.visible, CAUSAL[None, None])
    assert stored.file.kind == ("bool" if dtype == "bool" else "0/1")
    assert codes(stored) == ["mask-kind"]


F32 = float(np.finfo(np.float32).min)
F64 = float(np.finfo(np.float64).min)
BF16 = -3.3895313892515355e38


@pytest.mark.parametrize(
    "value, dtype, name",
    [
        (-np.inf, "float32", "−inf"),
        (-1e9, "float64", "−1e9"),
        (-1e9, "float32", "−1e9"),
        (-1e4, "float16", "−1e4"),
        (-10000, "int64", "−1e4"),
        (-1e30, "float32", "−1e30"),
        (-65504, "float16", "finfo(float16).min"),
        (-65504, "float64", "finfo(float16).min"),
        (F32, "float32", "finfo(float32).min"),
        (F32, "float64", "finfo(float32).min"),
        (F64, "float64", "finfo(float64).min"),
        (BF16, "float32", "finfo(bfloat16).min"),
        (-12345, "float64", "−12345"),
    ],
)
def test_a_fill_has_a_name(value: float, dtype: str, name: str) -> None:
    stored = read_mask(dump(x=filled(value, dtype)))
    assert stored.file.kind == "additive"
    assert list(stored.file.fills.values()) == [name]
    np.testing.assert_array_equal(stored.visible, CAUSAL[None, None])
    assert ("finite-fill" in codes(stored)) == np.isfinite(value)


def test_a_fill_that_bfloat16_rounds_keeps_its_name() -> None:
    stored = read_mask(dump("bfloat16", x=filled(-998244352.0, "float32")))
    assert list(stored.file.fills.values()) == ["−1e9"]


@pytest.mark.parametrize(
    "dtype, one, words",
    [
        ("float64", -1e9, "−2e9 stands among its fills, which is −1e9 twice"),
        ("float32", F32, "−inf stands among its fills, which is finfo(float32).min twice"),
        ("float16", -65504, "−inf stands among its fills, which is finfo(float16).min twice"),
    ],
)
def test_two_masks_that_were_added_are_noticed(dtype: str, one: float, words: str) -> None:
    padding = np.where(np.arange(6) < 4, 0, one).astype(dtype)
    with np.errstate(over="ignore"):
        stored = read_mask(dump(x=filled(one, dtype) + padding))
    (found,) = [finding for finding in stored.findings if finding.code == "double-fill"]
    assert found.message.startswith(words)
    assert found.severity == "warning"


def test_a_bias_beside_the_fill_is_no_second_fill() -> None:
    bias = -abs(np.arange(6) - np.arange(6)[:, None]) / 2
    stored = read_mask(dump(x=bias + np.where(CAUSAL, 0, -np.inf)))
    np.testing.assert_array_equal(stored.visible, CAUSAL[None, None])
    assert codes(stored) == ["mask-kind"]


def test_many_fills_are_named_by_their_ends() -> None:
    rows = np.arange(12)
    array = np.where(rows <= rows[:, None], 0, -1e9 - rows)
    assert read_mask(dump(x=array)).file.fills == {
        "-1000000001": "−1000000001",
        "-1000000011": "−1000000011",
    }


@pytest.mark.parametrize("value", [-1.0, -100.0, -9999.0])
def test_a_weak_fill_is_read_as_it_was_meant_and_warned_of(value: float) -> None:
    stored = read_mask(dump(x=filled(value)))
    np.testing.assert_array_equal(stored.visible, CAUSAL[None, None])
    assert codes(stored) == ["mask-kind", "weak-fill"]


@pytest.mark.parametrize(
    "array, code, severity",
    [
        (filled(1e9), "positive-fill", "warning"),
        (np.zeros((3, 3)), "ambiguous-mask", "warning"),
        (np.where(CAUSAL, 0, np.nan), "nan-in-mask", "error"),
        (np.where(CAUSAL, np.inf, -np.inf), "inf-in-mask", "error"),
    ],
)
def test_what_no_mask_should_hold(array: NDArray[Any], code: str, severity: str) -> None:
    found = {finding.code: finding for finding in read_mask(dump(x=array)).findings}
    assert found[code].severity == severity


def test_a_nan_is_found_at_its_place() -> None:
    array = filled(-1e9)
    array[2, 5] = np.nan
    (found,) = [f for f in read_mask(dump(x=array)).findings if f.code == "nan-in-mask"]
    assert "1 of 36 entries, first at (2, 5)" in found.message


@pytest.mark.parametrize(
    "name, shape, axes, full",
    [
        ("x", (7,), ("key",), (1, 1, 1, 7)),
        ("x", (5, 7), ("query", "key"), (1, 1, 5, 7)),
        ("x", (2, 5, 7), ("batch", "query", "key"), (2, 1, 5, 7)),
        ("x", (2, 3, 5, 7), ("batch", "head", "query", "key"), (2, 3, 5, 7)),
        ("mask", (5, 7), ("query", "key"), (1, 1, 5, 7)),
        ("attention_mask", (5, 7), ("batch", "key"), (5, 1, 1, 7)),
        ("src_key_padding_mask", (5, 7), ("batch", "key"), (5, 1, 1, 7)),
        ("attention_mask", (2, 1, 5, 7), ("batch", "head", "query", "key"), (2, 1, 5, 7)),
        ("attn_bias", (3, 5, 7), ("head", "query", "key"), (1, 3, 5, 7)),
    ],
)
def test_axes(
    name: str, shape: tuple[int, ...], axes: tuple[str, ...], full: tuple[int, ...]
) -> None:
    stored = read_mask(dump(None, **{name: np.ones(shape, np.bool_)}))
    assert stored.file.axes == axes
    assert stored.visible.shape == full


def test_the_name_tells_the_polarity() -> None:
    stored = read_mask(dump(key_padding_mask=np.array([[False, False, True]])))
    assert stored.file.polarity == "hidden"
    np.testing.assert_array_equal(stored.visible, [[[[True, True, False]]]])


def test_the_mask_is_found_among_other_arrays() -> None:
    others = {"q": np.ones((4, 2)), "loss": np.ones(3)}
    assert read_mask(dump(None, mask=CAUSAL, **others)).file.name == "mask"
    assert read_mask(dump(None, attn_mask=CAUSAL, **others)).file.name == "attn_mask"


@pytest.mark.parametrize(
    "arrays, message",
    [
        ({"q": np.ones(3), "k": np.ones(3)}, "no array that is called a mask"),
        ({"attn_mask": CAUSAL, "key_padding_mask": CAUSAL}, "several masks"),
        ({"x": np.ones((1, 1, 1, 2, 2))}, "has shape (1, 1, 1, 2, 2): a mask has 1 to 4 axes"),
        ({"x": np.ones((0, 3))}, "has shape (0, 3)"),
        ({"x": np.array(True)}, "has shape ()"),
        ({"x": np.array([["a"]])}, "has dtype <U1"),
    ],
)
def test_what_is_no_mask_is_refused(arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_mask(dump(**arrays))
    assert message in caught.value.message


def test_numbers_of_counts_what_is_not_finite() -> None:
    numbers = numbers_of(np.array([0, np.nan, np.inf, -np.inf, np.nan]), "float64")
    assert (numbers.nan, numbers.inf, list(numbers.fills)) == (2, 1, [-np.inf])
