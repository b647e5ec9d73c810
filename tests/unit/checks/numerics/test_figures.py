"""Figures of saturation against torch, against the limits of the precisions, against theory."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
import torch

from attn_cli.checks.numerics import torch_blocks
from attn_cli.checks.numerics.torch_figures import saturation
from attn_cli.core.draws import normal
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results_numerics import PrecisionFigures, Saturation
from tests.unit.checks.numerics.planted import qkv

DTYPES = ("float64", "float32", "float16", "bfloat16")


def of(figures: Saturation, label: str, dtype: str) -> PrecisionFigures:
    (one,) = [one for one in figures.precisions if (one.label, one.dtype) == (label, dtype)]
    return one


def unit(heads: int, queries: int, keys: int, d: int = 64) -> AttentionInputs:
    shapes = ((1, heads, queries, d), (1, heads, keys, d), (1, heads, keys, d))
    q, k, v = (normal(7, i, shape) for i, shape in enumerate(shapes))
    return AttentionInputs(q=q, k=k, v=v)


@pytest.mark.parametrize(("keys", "expected"), [(5, 0.46), (10, 0.35), (64, 0.20), (512, 0.12)])
def test_unscaled_unit_vectors_saturate_as_often_as_they_should(keys: int, expected: float) -> None:
    inputs = unit(16, 96, keys)
    figures = saturation(inputs, dtypes=("float32",), seed=0)
    scaled, bare = figures.scales
    assert (scaled.label, bare.label) == ("÷ √64", "no scale")
    weights = torch.softmax(torch.tensor(inputs.q) @ torch.tensor(inputs.k).mT, -1)
    share = float((weights.amax(-1) > 0.99).double().mean())
    np.testing.assert_allclose(bare.saturated.value, share, rtol=1e-12)
    assert abs(share - expected) < 4 * bare.saturated.error + 0.005  # the share is given to 1 %
    assert scaled.saturated.value < 0.05


def test_scores_of_unit_vectors_have_deviation_eight_and_one() -> None:
    """Within four standard errors, by theory: √((2d² + 6d + 2d(L + S − 2)) / LSH) / 2√d."""
    heads, length, d = 8, 64, 64
    figures = saturation(unit(heads, length, length), dtypes=("float32",), seed=0)
    scores, scaled = figures.spreads
    variance = (2 * d**2 + 6 * d + 2 * d * (2 * length - 2)) / (length**2 * heads)
    error = math.sqrt(variance) / (2 * math.sqrt(d))
    assert abs(scores.deviation.value - 8) < 4 * error
    assert abs(scaled.deviation.value - 1) < 4 * error / 8
    assert (scores.unit, scaled.unit) == (8, 1)
    np.testing.assert_allclose(scores.deviation.error, error, rtol=0.3)
    assert abs(scores.mean.value) < 4 * math.sqrt(d / (length**2 * heads))


def test_the_limits_are_those_of_the_precisions() -> None:
    """Half of the smallest number rounds to 0: exp below its logarithm is 0; by 50 digits."""
    mpmath.mp.dps = 50
    figures = saturation(qkv(dtype="float64"), dtypes=DTYPES, seed=0)
    halves = {"float64": -1075, "float32": -150, "float16": -25, "bfloat16": -134}
    for dtype, power in halves.items():
        one = of(figures, "÷ √8", dtype)
        np.testing.assert_allclose(one.vanishes_below, float(mpmath.log(2) * power), rtol=1e-14)
        largest = torch.finfo(getattr(torch, dtype)).max
        assert one.limit == largest
        np.testing.assert_allclose(one.naive_above, float(mpmath.log(largest)), rtol=1e-14)
        below, above = (one.vanishes_below * factor for factor in (1.01, 0.99))
        x = torch.tensor([below, above] * 16, dtype=getattr(torch, dtype))
        np.testing.assert_array_equal((torch.exp(x) == 0).numpy(), [True, False] * 16)
    assert round(of(figures, "÷ √8", "float16").vanishes_below, 2) == -17.33
    assert round(of(figures, "÷ √8", "float16").naive_above, 2) == 11.09


def test_counts_of_a_row_that_is_known() -> None:
    """Scores 12, 11, 0, −6 and −90 000 in float16: e^12 and not e^11 overflows; −18 and −∞ vanish.

    The largest is 12, so exp(score − max) of −6 is e^−18, which is below e^−17.33.
    """
    scores = np.array([12.0, 11.0, 0.0, -6.0, -60_000.0])
    inputs = AttentionInputs(
        q=np.ones((1, 1, 1, 1)), k=scores.reshape(1, 1, 5, 1), v=np.ones((1, 1, 5, 1)), scale=1.0
    )
    figures = saturation(inputs, dtypes=("float16", "float32"), seed=0)
    half, single = (of(figures, "no scale", dtype) for dtype in ("float16", "float32"))
    assert (half.pairs, half.naive_inf, half.naive_lost, half.vanished) == (5, 1, 1, 2)
    assert (single.naive_inf, single.naive_lost, single.vanished) == (0, 0, 1)
    assert (half.stable_lost, half.largest, half.nonfinite) == (0, 60_000, 0)
    assert (half.rows, half.saturated) == (1, 0)


def test_overflow_is_counted_in_each_precision() -> None:
    inputs = qkv(d=64, dtype="float64")
    inputs.q[:], inputs.k[:] = inputs.q * 90, inputs.k * 90
    figures = saturation(inputs, dtypes=DTYPES, seed=0)
    exact = np.einsum("bhld,bhsd->bhls", inputs.q, inputs.k)
    half = of(figures, "÷ √64", "float16")
    rounded = torch.tensor(inputs.q).half() @ torch.tensor(inputs.k).half().mT
    assert half.nonfinite == int(torch.isinf(rounded).sum()) > 0
    for dtype in ("float64", "float32", "bfloat16"):
        one = of(figures, "÷ √64", dtype)
        assert one.nonfinite == 0
        np.testing.assert_allclose(one.largest, np.abs(exact).max(), rtol=2**-6)


@pytest.mark.parametrize("scale", [None, 1.0])
def test_gradients_are_those_of_the_jacobian(scale: float | None) -> None:
    """∂⟨u, o⟩/∂q = s · Kᵀ (w ∘ (V u − ⟨o, u⟩)) for every row, with the same u."""
    inputs = qkv(heads=1, kv_heads=1, dtype="float64", scale=scale)
    figures = saturation(inputs, dtypes=("float32",), seed=5)
    factor = inputs.effective_scale
    q, k, v = inputs.q[0, 0], inputs.k[0, 0], inputs.v[0, 0]
    e = np.exp(q @ k.T * factor)
    w = e / e.sum(-1, keepdims=True)
    u = normal(5, 1, (5, 8))
    values = u @ v.T  # (L, S)
    inner = w * (values - (w * values).sum(-1, keepdims=True))
    norms = np.linalg.norm(factor * inner @ k, axis=-1)
    own = next(one for one in figures.scales if one.given)
    np.testing.assert_allclose(own.gradient_mean, norms.mean(), rtol=1e-12)
    np.testing.assert_allclose(own.gradient_median, np.median(norms), rtol=1e-12)


def test_the_gradient_does_not_simply_vanish_without_the_scale() -> None:
    """At d_k = 64 the median falls for 5 keys and grows for 512."""
    ratios = {}
    for keys in (5, 512):
        scaled, bare = saturation(unit(8, 64, keys), dtypes=("float32",), seed=0).scales
        ratios[keys] = bare.gradient_median / scaled.gradient_median
    assert ratios[5] < 1 < ratios[512]


def test_sampled_rows_are_said_and_near_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = unit(4, 64, 64)
    whole = saturation(inputs, dtypes=("float32",), seed=0)
    monkeypatch.setattr(torch_blocks, "PAIRS_SEEN", 4 * 64 * 16)
    part = saturation(inputs, dtypes=("float32",), seed=0)
    assert (whole.rows_seen, whole.rows_total) == (256, 256)
    assert (part.rows_seen, part.rows_total) == (64, 256)
    off = part.spreads[0].deviation.value - whole.spreads[0].deviation.value
    assert abs(off) < 4 * part.spreads[0].deviation.error


def test_rows_without_a_choice_are_not_counted() -> None:
    mask = np.tril(np.ones((5, 6), bool))
    inputs = qkv(additive=np.where(mask, 0, -np.inf))
    figures = saturation(inputs, dtypes=("float16",), seed=0)
    assert figures.scales[0].rows == 2 * 4
    padded = replace(inputs, query_lengths=(3,))
    assert saturation(padded, dtypes=("float16",), seed=0).scales[0].rows == 2 * 2
