"""compare: verdicts, classes, the worst element and its figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attn_cli.core.compare import StageDiff, compare

NAN, INF = float("nan"), float("inf")
ONES = np.ones((2, 3))


def held(a: Any, b: Any, *, budget: Any = 0.1, dtype: str = "float64") -> StageDiff:
    return compare(np.asarray(a, float), np.asarray(b, float), budget=budget, dtype=dtype)


def test_equal_values_are_identical_also_those_that_are_not_finite() -> None:
    values = [[0.0, NAN, INF], [-INF, 1.0, -0.0]]
    other = [[-0.0, NAN, INF], [-INF, 1.0, 0.0]]
    diff = held(values, other, budget=0)
    assert diff == StageDiff("identical", ((2, 3), (2, 3)))


@pytest.mark.parametrize("gap, verdict", [(0.1, "rounding"), (0.1000001, "different")])
def test_the_budget_is_the_largest_gap_that_is_rounding(gap: float, verdict: str) -> None:
    diff = held([0.0, 0.0, gap], [0.0] * 3, budget=0.1)
    assert diff.verdict == verdict
    assert diff.where == (2,)
    assert diff.max_abs == gap
    assert diff.budget == 0.1
    assert diff.beyond == (verdict == "different")


@pytest.mark.parametrize(
    "a, b", [(NAN, 1.0), (INF, 1.0), (-INF, 1.0), (INF, -INF), (NAN, INF), (NAN, -INF)]
)
def test_one_of_another_class_is_different_whatever_the_budget(a: float, b: float) -> None:
    for left, right in ((a, b), (b, a)):
        diff = held([[1.0, 1.1], [left, 2.0]], [[1.0, 1.0], [right, 2.0]], budget=1e300)
        assert diff.verdict == "different"
        assert (diff.nonfinite, diff.beyond) == (1, 1)
        assert diff.where == (1, 0)  # not where finite numbers are farthest apart
        assert diff.max_abs == pytest.approx(0.1)


def test_shapes_that_differ_are_different_and_nothing_is_broadcast() -> None:
    diff = held(np.ones((2, 1)), ONES, budget=9)
    assert diff == StageDiff("different", ((2, 1), (2, 3)))


def test_each_element_has_its_own_budget() -> None:
    """The largest gap is within its budget; the one to look at is the smaller one that is not."""
    a, b = np.zeros((2, 2)), np.array([[0.5, 0.0], [0.01, 0.0]])
    diff = held(a, b, budget=np.array([[1.0], [0.001]]))
    assert (diff.verdict, diff.beyond, diff.where) == ("different", 1, (1, 0))
    assert (diff.max_abs, diff.budget) == (0.5, 0.001)


def test_relative_gap_and_ulps() -> None:
    diff = held([2.0, 1.0], [2.0, 1.0 + 3 * 2.0**-23], dtype="float32")
    assert diff.ulps == 3
    assert diff.max_rel == pytest.approx(3 * 2.0**-23)
    assert held([4.0], [4.0 + 2.0**-5], dtype="bfloat16").ulps == 1


def test_numbers_at_the_end_of_the_range_do_not_overflow_into_a_warning() -> None:
    diff = held([1e308], [-1e308], budget=1.0)
    assert (diff.verdict, diff.max_abs) == ("different", INF)


def test_half_precision_is_widened_before_it_is_subtracted() -> None:
    a, b = np.full(2, 60000, np.float16), np.full(2, -60000, np.float16)
    assert compare(a, b, budget=1.0, dtype="float16").max_abs == 120000


def test_nothing_against_nothing_is_identical() -> None:
    assert held(np.ones((0, 3)), np.ones((0, 3))).verdict == "identical"
