"""Precisions: rounding against PyTorch's own conversion, ulps against numpy.spacing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from attn_cli.core.rounding import PRECISIONS, accumulator, precision, round_to
from attn_cli.errors import InputError

INF = float("inf")


def bits_of_float32(seed: int, count: int) -> NDArray[np.float32]:
    """Random bit patterns: every magnitude, subnormals, NaN with any payload, ±inf."""
    bits = np.random.default_rng(seed).integers(0, 2**32, count, dtype=np.uint32)
    bits[: count // 8] &= np.uint32(0x807FFFFF)  # subnormals
    bits[count // 8 : count // 4] |= np.uint32(0x7F800000)  # NaN and inf
    return bits.view(np.float32)


HALFWAY = np.array([0x3F808000, 0x3F818000, 0x00008000, 0x7F7F8000, 0xFF7FFFFF, 0x80000001], "u4")
EDGES = np.array([0.0, -0.0, INF, -INF, np.nan, 1.0, 65504.0, 65520.0, 1e-45], np.float32)
SPECIAL = np.concatenate([HALFWAY.view(np.float32), EDGES])


@pytest.mark.parametrize("values", [bits_of_float32(0, 20_000), SPECIAL])
def test_bfloat16_is_what_torch_makes_of_float32(values: NDArray[np.float32]) -> None:
    expected = torch.from_numpy(values.copy()).bfloat16().float().numpy()
    came = round_to(values, "bfloat16")
    assert came.dtype == np.float32
    np.testing.assert_array_equal(np.isnan(came), np.isnan(expected))
    number = ~np.isnan(expected)
    # −0 and subnormals too: bit by bit
    np.testing.assert_array_equal(came[number].view("u4"), expected[number].view("u4"))


@pytest.mark.parametrize(
    "name, torch_dtype", [("bfloat16", torch.bfloat16), ("float32", torch.float32)]
)
def test_float64_is_rounded_as_torch_does(name: str, torch_dtype: Any) -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=5000) * 10.0 ** rng.integers(-50, 50, 5000)
    expected = torch.from_numpy(values).to(torch_dtype).to(torch.float32).numpy()
    np.testing.assert_array_equal(round_to(values, name), expected)


def test_float16_rounds_to_nearest_even_and_overflows_to_inf() -> None:
    values = np.array([65504.0, 65519.99, 65520.0, -1e9, 2049.0, 2051.0, 2.0**-25, 3 * 2.0**-26])
    expected = [65504.0, 65504.0, INF, -INF, 2048.0, 2052.0, 0.0, 2.0**-24]
    np.testing.assert_array_equal(round_to(values, "float16"), expected)


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16"])
def test_rounding_leaves_what_already_fits(name: str) -> None:
    values = np.array([0.5, -1.0, 0.0, 1.5, 2.0**-14, INF, -INF, np.nan])
    once = round_to(values, name)
    np.testing.assert_array_equal(once.astype(np.float64), values)
    np.testing.assert_array_equal(round_to(once, name), once)


def test_any_shape_and_stride_is_rounded() -> None:
    values = np.random.default_rng(2).normal(size=(4, 6)).astype(np.float32)
    for view in (values[::2, ::-3], np.asfortranarray(values), values[0, 0], values[:0]):
        np.testing.assert_array_equal(
            round_to(view, "bfloat16"),
            round_to(np.ascontiguousarray(view), "bfloat16").reshape(view.shape),
        )


@pytest.mark.parametrize("name", ["float64", "float32", "float16"])
def test_an_ulp_is_the_spacing_of_numpy(name: str) -> None:
    limits = np.finfo(name)
    exponents = np.arange(limits.minexp - limits.nmant - 2, limits.maxexp - 1, 3)
    drawn = np.random.default_rng(3).uniform(1, 2, exponents.size)
    edges = [0.0, 1.0, limits.max / 2, limits.smallest_normal, limits.smallest_subnormal]
    values = np.concatenate([np.ldexp(drawn, exponents), edges]).astype(name)
    expected = np.spacing(np.abs(values)).astype(np.float64)
    np.testing.assert_array_equal(precision(name).ulp(values), expected)
    np.testing.assert_array_equal(precision(name).ulp(-values), expected)


def test_an_ulp_of_bfloat16_is_the_next_number_that_torch_knows() -> None:
    values = torch.tensor([1.0, 1.9, 3.0, 100.0, 2.0**-126, 2.0**-130, 0.0]).bfloat16()
    following = (values.view(torch.int16) + 1).view(torch.bfloat16)
    expected = (following.double() - values.double()).numpy()
    np.testing.assert_array_equal(precision("bfloat16").ulp(values.float().numpy()), expected)


def test_tf32_keeps_ten_bits_behind_the_point_and_ties_go_to_even() -> None:
    step = 2.0**-10
    given = np.array([1 + step, 1 + step / 2, 1 + 1.5 * step, -(1 + 0.75 * step), 0.0, np.inf])
    rounded = round_to(given, "tf32")
    assert rounded.dtype == np.float32
    expected = [1 + step, 1.0, 1 + 2 * step, -(1 + step), 0.0, np.inf]
    np.testing.assert_array_equal(rounded, expected)
    assert np.isnan(round_to(np.array([np.nan]), "tf32")).all()
    assert precision("tf32").eps == step


@pytest.mark.parametrize("name", [name for name in PRECISIONS if name != "tf32"])
def test_limits_are_those_of_torch(name: str) -> None:
    limits, ours = torch.finfo(getattr(torch, name)), precision(name)
    assert ours.largest == limits.max
    assert ours.eps == limits.eps
    assert ours.smallest_normal == limits.smallest_normal
    assert ours.smallest == limits.smallest_normal * limits.eps


def test_sums_are_kept_wider_than_half_precision() -> None:
    assert accumulator("float64") is np.float64
    assert [accumulator(n) for n in ("float32", "float16", "bfloat16")] == [np.float32] * 3


def test_an_unknown_precision_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"no precision 'float24' \(known: float64, float32"):
        precision("float24")
