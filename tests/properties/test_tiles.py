"""Block size does not matter: partial rows over any split of the keys merge into the dense rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attn_cli.core.softmax import PartialRows, close, merge, partial_rows
from attn_cli.core.statistics import RowSums
from attn_cli.stats import STATISTICS

Array = NDArray[Any]
TERMS = {name: g for s in STATISTICS for name, g in STATISTICS[s].terms.items()}
SUMS = ("maximum", "lse", "log_z", "weight_sum", "shifted", "visible", "empty")
NAN, INF = float("nan"), float("inf")


def tiles(
    masked: Array, visible: NDArray[np.bool_], cuts: Sequence[int]
) -> list[tuple[Array, PartialRows]]:
    """p and the partial rows of every stretch of keys between the cuts."""
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < masked.shape[-1]}), masked.shape[-1]]
    return [
        partial_rows(
            masked[..., start:stop],
            q_pos=np.arange(masked.shape[-2])[:, None],
            k_pos=np.arange(start, stop),
            terms=TERMS,
            takes_part=visible[..., start:stop],
            counted=visible[..., start:stop],
        )
        for start, stop in pairwise(edges)
    ]


def merged(
    masked: Array, visible: NDArray[np.bool_], cuts: Sequence[int], sinks: Array | None
) -> tuple[RowSums, Array]:
    """The finished rows and the weights over the tiles."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        parts = tiles(masked, visible, cuts)
        whole = reduce(merge, [part for _, part in parts])
        sums, kept, total = close(whole, sinks=sinks, aligned=True)
        weights = [_weights(p, part, whole, kept, total) for p, part in parts]
    return sums, np.concatenate(weights, -1)


def _weights(p: Array, part: PartialRows, whole: PartialRows, kept: Array, total: Array) -> Array:
    """What exp(score − its tile's maximum) becomes as a weight of the whole row."""
    factor = np.where(part.maximum == whole.maximum, 1, np.exp(part.maximum - whole.maximum))
    return np.asarray(p * (factor * kept / total)[..., None])


def assert_same_sums(a: RowSums, b: RowSums, *, rtol: float, atol: float) -> None:
    for name in SUMS:
        np.testing.assert_allclose(
            getattr(a, name), getattr(b, name), rtol=rtol, atol=atol, err_msg=name
        )
    for name in TERMS:
        np.testing.assert_allclose(
            a.expected[name], b.expected[name], rtol=rtol, atol=atol, err_msg=name
        )


@st.composite
def rows(draw: st.DrawFn) -> tuple[Array, NDArray[np.bool_], Array | None]:
    """Masked scores (H, L, S), what is visible, and sinks; whole tiles may be hidden."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    keys = draw(st.integers(1, 24))
    scores = rng.normal(size=(2, 5, keys)) * draw(st.sampled_from([0.0, 1.0, 20.0, 1000.0]))
    visible = rng.random(scores.shape) < draw(st.sampled_from([0.2, 0.7, 1.0]))
    scores += draw(st.sampled_from([0.0, 3000.0, -3000.0]))
    sinks = rng.normal(size=(2, 1)) * 5 if draw(st.booleans()) else None
    return np.where(visible, scores, -INF), visible, sinks


CUTS = st.lists(st.integers(0, 24), max_size=6)


@settings(max_examples=50)
@given(case=rows(), cuts=CUTS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_any_split_gives_the_dense_rows(
    dtype: str, case: tuple[Array, NDArray[np.bool_], Array | None], cuts: list[int]
) -> None:
    masked, visible, sinks = case
    masked = masked.astype(dtype)
    sinks = None if sinks is None else sinks.astype(dtype)
    dense, dense_weights = merged(masked, visible, (), sinks)
    tiled, tiled_weights = merged(masked, visible, cuts, sinks)
    assert tiled.lse.dtype == dense.lse.dtype == masked.dtype
    eps = float(np.finfo(dtype).eps)
    finite = np.where(np.isfinite(masked), masked, 0)
    # exp(a)·exp(b) for exp(a + b): an error of eps·|a| in the exponent, |a| at most the spread
    spread = float(np.ptp(finite, -1).max())
    assert_same_sums(tiled, dense, rtol=64 * eps, atol=eps * (64 + 4 * min(spread, 200.0)))
    np.testing.assert_allclose(
        tiled_weights, dense_weights, rtol=0, atol=eps * (8 + 4 * min(spread, 200.0))
    )


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), cuts=CUTS)
def test_entropy_of_large_scores_keeps_its_digits_in_float32(seed: int, cuts: list[int]) -> None:
    """Near 3,000 the unshifted lse − E[score] is off by 5e-4; the shifted sums by about 1e-6."""
    rng = np.random.default_rng(seed)
    masked = (3000 + rng.normal(size=(1, 6, 24))).astype(np.float32)
    visible = np.ones(masked.shape, bool)
    tiled, _ = merged(masked, visible, cuts, None)
    exact, _ = merged(masked.astype(np.float64), visible, (), None)
    entropy = STATISTICS["entropy"]
    np.testing.assert_allclose(entropy.finish(tiled), entropy.finish(exact), rtol=0, atol=2e-6)


def with_cell(value: float, key: int) -> tuple[Array, NDArray[np.bool_]]:
    masked = np.random.default_rng(3).normal(size=(1, 2, 6))
    masked[0, 1, key] = value
    return masked, np.ones(masked.shape, bool)


@pytest.mark.parametrize("cuts", [(), (2,), (1, 2, 3, 4, 5), (4,)])
@pytest.mark.parametrize("key", [0, 3, 5])
def test_one_nan_makes_its_own_row_nan(key: int, cuts: Sequence[int]) -> None:
    sums, weights = merged(*with_cell(NAN, key), cuts, None)
    assert np.isnan([sums.lse[0, 1], sums.maximum[0, 1], sums.weight_sum[0, 1]]).all()
    assert np.isnan(weights[0, 1]).all()
    assert np.isfinite(sums.lse[0, 0])
    assert not sums.empty.any()


@pytest.mark.parametrize("cuts", [(), (2,), (1, 2, 3, 4, 5), (4,)])
def test_inf_makes_a_row_nan_as_softmax_has_it_and_lse_inf(cuts: Sequence[int]) -> None:
    sums, weights = merged(*with_cell(INF, 3), cuts, None)
    assert sums.lse[0, 1] == INF
    assert np.isnan(sums.weight_sum[0, 1])
    assert np.isnan(weights[0, 1]).all()
    assert np.isfinite(sums.lse[0, 0])


@pytest.mark.parametrize("cuts", [(), (2,), (1, 2, 3, 4, 5)])
@pytest.mark.parametrize("sink", [None, 0.5, -INF])
def test_rows_without_keys_and_rows_of_minus_inf(cuts: Sequence[int], sink: float | None) -> None:
    """Only a mask makes a row empty; visible scores of −inf are 0/0, unless a sink is there."""
    masked = np.full((1, 2, 6), -INF)
    visible = np.zeros(masked.shape, bool)
    visible[0, 1] = True
    sinks = None if sink is None else np.full((1, 1), sink)
    sums, weights = merged(masked, visible, cuts, sinks)
    np.testing.assert_array_equal(sums.empty, [[True, False]])
    np.testing.assert_array_equal(sums.visible, [[0, 6]])
    np.testing.assert_array_equal(weights[0, 0], 0)
    assert sums.weight_sum[0, 0] == sums.shifted[0, 0] == 0
    assert sums.lse[0, 0] == -INF
    if sink == 0.5:
        assert sums.lse[0, 1] == 0.5
        np.testing.assert_array_equal(weights[0, 1], 0)
    else:
        assert sums.lse[0, 1] == -INF
        assert np.isnan(sums.weight_sum[0, 1])


@settings(max_examples=30)
@given(case=rows(), cuts=CUTS)
def test_merging_does_not_mind_the_order(
    case: tuple[Array, NDArray[np.bool_], Array | None], cuts: list[int]
) -> None:
    masked, visible, _ = case
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        parts = [part for _, part in tiles(masked, visible, cuts)]
        forward, backward = reduce(merge, parts), reduce(merge, parts[::-1])
        a, _, _ = close(forward, sinks=None, aligned=True)
        b, _, _ = close(backward, sinks=None, aligned=True)
    assert_same_sums(a, b, rtol=1e-12, atol=1e-12)


def test_the_comparison_of_sums_can_fail() -> None:
    masked, visible = with_cell(0.5, 2)
    sums, _ = merged(masked, visible, (), None)
    for name in ("lse", "shifted", "weight_sum"):
        wrong = replace(sums, **{name: getattr(sums, name) + 1e-6})
        with pytest.raises(AssertionError, match=name):
            assert_same_sums(sums, wrong, rtol=1e-9, atol=1e-9)
