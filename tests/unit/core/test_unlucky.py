"""What permuted sums do not show: drifts of alike summands, scores an ulp off."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from attn_cli.core.unlucky import SUMMANDS, drift, scaled_first, swayed, ulp_of_scores


def test_a_sum_of_alike_numbers_drifts_as_a_loop_does() -> None:
    total = np.float32(0)
    for _ in range(10_000):
        total += np.float32(0.1)
    off = abs(float(total) - 10_000 * float(np.float32(0.1)))
    assert off > 0.09
    found = drift(np.ones((3, 10_000)), np.full((10_000, 2), 0.1, np.float32), "float32")
    assert found == pytest.approx(off, rel=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_sums_are_kept_in_float32_below_it(dtype: str) -> None:
    a, b = np.full((1, 999), 0.3, np.float32), np.full((999, 1), 0.7, np.float32)
    assert drift(a, b, dtype) == drift(a, b, "float32") > drift(a, b, "float64")


def test_sums_of_halves_do_not_drift() -> None:
    assert drift(np.full((2, 64), 0.5), np.full((64, 2), 0.25), "float32") == 0


def test_large_products_are_asked_for_one_row() -> None:
    b = np.full((SUMMANDS + 1, 1), 0.1, np.float32)
    assert drift(np.ones((4, len(b))), b, "float32") > 1


@pytest.mark.parametrize("empty", [(0, 3), (2, 0)])
def test_nothing_has_no_drift(empty: tuple[int, int]) -> None:
    assert drift(np.ones(empty), np.ones((empty[1], 2)), "float32") == 0


def test_what_is_not_finite_is_left_out() -> None:
    a = np.array([[np.nan, 1.0], [np.inf, 1.0]])
    assert drift(a, np.ones((2, 2)), "float32") == 0


@pytest.mark.parametrize("delta", [1e-3, 0.1, 2.0])
def test_weights_go_no_further_than_they_are_said_to(delta: float) -> None:
    rng = np.random.default_rng(0)
    scores, values = rng.normal(size=(50, 4)), rng.normal(size=(4, 3))

    def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
        e: NDArray[np.float64] = np.exp(scores)
        return np.asarray(e / e.sum(-1, keepdims=True))

    weights = softmax(scores)
    moved = softmax(scores + rng.choice([-delta, delta], scores.shape))
    said, _ = swayed(weights, values, delta)
    assert 0.2 * min(said, 1) < np.abs(moved - weights).max() <= said


def test_a_weight_of_one_does_not_go() -> None:
    assert swayed(np.eye(3), np.ones((3, 2)), 0.5) == (0.0, 0.0)


def test_the_ulp_is_that_of_the_largest_score_of_the_row_that_is_finite() -> None:
    masked = np.array([[[[-np.inf, 3.0, 9.0], [-np.inf, -np.inf, 0.5]]]])
    np.testing.assert_array_equal(ulp_of_scores(masked, "bfloat16").ravel(), [2**-4, 2**-8])


def test_a_program_that_scales_first_is_off_by_no_more() -> None:
    """Large products that cancel: the rounding of each is what is left."""
    rng = np.random.default_rng(1)
    q, k = rng.normal(size=(20, 8)), rng.normal(size=(30, 8)) + 100
    q, k = q.astype(np.float32), k.astype(np.float32)
    root = np.float32(8**-0.25)
    first = (q * root).astype(np.float64) @ (k * root).astype(np.float64).T
    off = np.abs(first - q.astype(np.float64) @ k.astype(np.float64).T / np.sqrt(8)).max()
    said = scaled_first(q, k, "float32") / np.sqrt(8)
    assert 0.1 * said < off < 3 * said


def test_the_logit_of_a_sink_counts_as_a_score() -> None:
    scores = np.array([[[0.5, -np.inf], [-3.0, 1.0]]])
    found = ulp_of_scores(scores, "float32", np.array([-9.0])[:, None, None])
    np.testing.assert_array_equal(found, np.full((1, 2, 1), np.spacing(np.float32(9))))
    assert ulp_of_scores(scores, "float32")[0, 0, 0] == np.spacing(np.float32(0.5))
