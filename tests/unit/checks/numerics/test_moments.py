"""Moments of scores: their errors against the definition, against theory and against draws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attn_cli.checks.numerics.moments import (
    ScoreMoments,
    by_chance,
    predicted_deviation,
    proportion,
    share,
)


def by_definition(e: np.ndarray, seen: np.ndarray) -> float:
    """√(Σ row sums² + Σ column sums² − Σ e²) / n, one number after the other."""
    total = 0.0
    for row in range(e.shape[0]):
        total += sum(e[row, c] for c in range(e.shape[1]) if seen[row, c]) ** 2
    for column in range(e.shape[1]):
        total += sum(e[r, column] for r in range(e.shape[0]) if seen[r, column]) ** 2
    own = sum(e[r, c] ** 2 for r, c in np.argwhere(seen))
    return math.sqrt(max(total - own, own)) / int(seen.sum())


@pytest.mark.parametrize("pivot", [0.0, 1.5, 40.0])
def test_mean_and_deviation_with_their_errors_by_definition(pivot: float) -> None:
    rng = np.random.default_rng(1)
    scores, seen = rng.standard_normal((7, 9)) * 3 + 40, rng.random((7, 9)) < 0.7
    scores += rng.standard_normal((7, 1)) * 5  # rows that share something
    moments = ScoreMoments(pivot)
    moments.add(scores[:3], seen[:3], batch=0, kv=0)
    moments.add(scores[3:], seen[3:], batch=0, kv=0)
    values = scores[seen]
    assert moments.count == seen.sum()
    np.testing.assert_allclose(moments.mean().value, values.mean(), rtol=1e-12)
    np.testing.assert_allclose(moments.deviation().value, values.std(), rtol=1e-9)
    centred = scores - values.mean()
    np.testing.assert_allclose(moments.mean().error, by_definition(centred, seen), rtol=1e-7)
    squares = centred**2 - values.var()
    error = by_definition(squares, seen) / (2 * values.std())
    np.testing.assert_allclose(moments.deviation().error, error, rtol=1e-6)


def test_errors_are_those_of_theory_and_of_repeated_draws() -> None:
    """Unit normal q and k: Var mean = d / LS, and Var of the variance counts shared vectors.

    E s⁴ = 3(d² + 2d), and two scores that share a query or a key have cov(s², s'²) = 2d, so the
    variance of the mean square is (2d² + 6d + 2d(L + S − 2)) / LS.
    """
    rng, draws, d, length, keys = np.random.default_rng(2), 400, 16, 24, 32
    measured = []
    for _ in range(draws):
        q, k = rng.standard_normal((length, d)), rng.standard_normal((keys, d))
        moments = ScoreMoments(0.0)
        moments.add(q @ k.T, np.ones((length, keys), bool), batch=0, kv=0)
        mean, deviation = moments.mean(), moments.deviation()
        measured.append((mean.value, mean.error, deviation.value, deviation.error))
    means, mean_errors, deviations, deviation_errors = np.array(measured).T
    pairs = length * keys
    of_mean = math.sqrt(d / pairs)
    of_variance = math.sqrt((2 * d**2 + 6 * d + 2 * d * (length + keys - 2)) / pairs)
    of_deviation = of_variance / (2 * math.sqrt(d))
    spread = 4 / math.sqrt(2 * draws)  # four standard errors of a deviation from so many draws
    np.testing.assert_allclose(means.std(), of_mean, rtol=spread)
    np.testing.assert_allclose(deviations.std(), of_deviation, rtol=spread + 0.05)
    np.testing.assert_allclose(math.sqrt((mean_errors**2).mean()), of_mean, rtol=0.15)
    np.testing.assert_allclose(math.sqrt((deviation_errors**2).mean()), of_deviation, rtol=0.15)


def test_hidden_and_infinite_scores_take_no_part() -> None:
    scores = np.array([[1.0, np.inf, 3.0], [np.nan, 5.0, 100.0]])
    seen = np.array([[True, True, True], [True, True, False]])
    moments = ScoreMoments(0.0)
    moments.add(scores, seen, batch=0, kv=0)
    assert moments.count == 3
    np.testing.assert_allclose(moments.mean().value, 3.0)


def test_nothing_visible_has_no_mean() -> None:
    moments = ScoreMoments(0.0)
    moments.add(np.zeros((2, 2)), np.zeros((2, 2), bool), batch=0, kv=0)
    assert math.isnan(moments.mean().value)
    assert math.isnan(moments.deviation().error)


def test_a_share_of_independent_rows_has_the_binomial_error() -> None:
    hit = np.array([1.0, 0, 0, 0, 1, 0, 0, 0])
    measured = share(hit, np.zeros(8, np.int64))
    np.testing.assert_allclose((measured.value, measured.error), (0.25, math.sqrt(0.25 * 0.75 / 8)))


def test_rows_of_one_head_that_go_together_widen_the_error() -> None:
    hit = np.array([1.0, 1, 1, 1, 0, 0, 0, 0])
    groups = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    assert share(hit, groups).error > 2 * share(hit, np.zeros(8, np.int64)).error
    assert math.isnan(share(np.zeros(0), np.zeros(0, np.int64)).value)


@pytest.mark.parametrize(("rows", "true"), [(8, 0.03), (16, 0.1), (100, 0.02), (60, 0.97)])
def test_a_proportion_is_within_two_errors_as_often_as_it_should(rows: int, true: float) -> None:
    """Also where no row or every row is a hit, which says nothing of certainty."""
    rng, inside, draws = np.random.default_rng(4), 0, 2000
    for _ in range(draws):
        measured = proportion(rng.random(rows) < true, np.zeros(rows, np.int64))
        inside += abs(measured.value - true) <= 2 * measured.error
    assert inside / draws > 0.93
    nothing = proportion(np.zeros(rows, bool), np.zeros(rows, np.int64))
    assert nothing.value == 0
    assert nothing.error > 0


@pytest.mark.parametrize("share_", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("rows", [1, 4, 37])
def test_chance_is_the_binomial_tail(rows: int, share_: float) -> None:
    for hits in range(rows + 1):
        tail = sum(
            math.comb(rows, k) * share_**k * (1 - share_) ** (rows - k)
            for k in range(hits, rows + 1)
        )
        np.testing.assert_allclose(by_chance(hits, rows, share_), tail, rtol=1e-10)


def test_chance_of_many_rows_and_at_the_ends() -> None:
    """A million rows take no time; 0 and 1 as shares have no logarithm."""
    few, many = (by_chance(hits, 10**6, 0.05) for hits in (50_000, 51_000))
    np.testing.assert_allclose(few, 0.5, atol=0.01)
    assert 0 < many < 1e-5
    assert (by_chance(1, 4, 0.0), by_chance(0, 4, 0.0), by_chance(4, 4, 1.0)) == (0.0, 1.0, 1.0)


def test_prediction_counts_the_means_and_variances_of_the_features() -> None:
    """Independent features: the variance of a product is E q² E k² − (E q E k)²."""
    rng = np.random.default_rng(3)
    q = rng.standard_normal((1, 2, 4000, 8)) * 2 + 1
    k = rng.standard_normal((1, 1, 4000, 8)) * 0.5 - 1
    expected = math.sqrt(8 * ((4 + 1) * (0.25 + 1) - 1))
    np.testing.assert_allclose(predicted_deviation(q, k, 2), expected, rtol=0.02)
