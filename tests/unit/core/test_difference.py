"""What is gathered of a stage: the worst place, classes, the facts of a difference, the slope."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attn_cli.core.difference import SideTally, Tally, Tolerance, coarser
from attn_cli.core.results_diff import Fact, StageResult
from attn_cli.core.slope import Slope
from attn_cli.core.trace import SCORE_AXES

Array = np.ndarray[Any, np.dtype[Any]]


def tally(stage: str = "weights", dtype: str = "float32", offset: int | None = 0) -> Tally:
    return Tally(stage, SCORE_AXES, SideTally(dtype), SideTally(dtype), offset)


def result(
    left: Array, right: Array, *, stage: str = "weights", budget: float = 1e-6
) -> StageResult:
    whole = tally(stage)
    for b in range(len(left)):
        whole.compare((b, 0), left[b : b + 1], right[b : b + 1], budget)
    return whole.result()


def facts(found: StageResult) -> dict[str, Fact]:
    return {fact.name: fact for fact in found.signature}


def draw(*shape: int) -> Array:
    return np.random.default_rng(0).normal(size=shape)


def test_the_worst_element_of_all_parts_is_named_with_both_values() -> None:
    right = draw(2, 3, 4, 5)
    left = right.copy()
    left[0, 1, 2, 3] += 0.1
    left[1, 2, 0, 4] += 0.2
    found = result(left, right)
    assert dict(found.where) == {"batch": 1, "head": 2, "query": 0, "key": 4}
    assert found.values == (left[1, 2, 0, 4], right[1, 2, 0, 4])
    assert (found.verdict, found.beyond, found.elements) == ("different", 2, 120)
    np.testing.assert_allclose(found.max_abs, 0.2)


def test_an_element_of_another_class_comes_before_one_far_apart() -> None:
    right = draw(1, 2, 3, 4)
    left = right.copy()
    left[0, 0, 0, 0] += 100
    left[0, 1, 2, 3] = np.nan
    right[0, 1, 1, 1] = -np.inf
    found = result(left, right)
    assert dict(found.where) == {"batch": 0, "head": 1, "query": 1, "key": 1}
    assert found.nonfinite == {"left": {"nan": 1}, "right": {"-inf": 1}}


def test_heads_that_are_compared_one_at_a_time_keep_their_numbers() -> None:
    right = draw(1, 4, 3, 3)
    left = right.copy()
    left[0, 2] += 1
    whole = tally()
    for h in range(4):
        whole.compare((0, h), left[:, h : h + 1], right[:, h : h + 1], 1e-6)
    found = whole.result()
    assert found.where["head"] == 2
    assert facts(found)["heads"].numbers == {"differ": [[0, 2]], "heads": 4}


def test_within_the_budget_there_is_no_signature() -> None:
    right = draw(1, 2, 3, 4)
    found = result(right + 1e-8, right)
    assert (found.verdict, found.signature) == ("rounding", ())


@pytest.mark.parametrize(
    "change, relation",
    [
        (lambda hidden: hidden, "equal"),
        (lambda hidden: ~hidden, "complement"),
        (lambda hidden: hidden | np.eye(6, dtype=bool), "superset"),
        (lambda hidden: hidden & ~np.eye(6, k=2, dtype=bool), "subset"),
        (lambda hidden: hidden ^ (np.arange(36).reshape(6, 6) % 35 % 5 == 0), "other"),
    ],
)
def test_patterns_of_hidden_keys_are_told_apart(change: Any, relation: str) -> None:
    hidden = np.triu(np.ones((6, 6), bool), 2) | np.eye(6, k=-3, dtype=bool)
    right = np.where(hidden, 0, 0.3)[None, None]
    left = np.where(change(hidden), 0, 0.2)[None, None]
    assert facts(result(left, right))["pattern"].numbers["relation"] == relation


def test_a_pattern_that_is_moved_by_one_key_is_told() -> None:
    hidden = np.random.default_rng(1).random((1, 1, 8, 9)) < 0.5
    left, right = (np.where(hidden[..., part], 0, 0.4) for part in (slice(0, 8), slice(1, 9)))
    pattern = facts(result(left, right))["pattern"]
    assert pattern.numbers["relation"] == "shifted"
    assert "one key on" in pattern.words


def test_sums_of_rows_and_errors_by_place() -> None:
    right = np.full((1, 1, 4, 4), 0.25)
    left = right.copy()
    left[0, 0, 3, 1] += 0.5
    found = facts(result(left, right))
    assert found["row-sums"].numbers == {
        "left": {"min": 1.0, "max": 1.5, "not_finite": 0},
        "right": {"min": 1.0, "max": 1.0, "not_finite": 0},
    }
    assert found["queries"].numbers["largest"] == {"query 0": 0.0, "the last query": 0.5}
    assert found["keys"].numbers == {"before": 0.5, "same": 0.0, "after": 0.0}
    assert found["distance"].numbers["largest"] == {"1–3": 0.5}


def test_the_same_values_in_other_places_are_known() -> None:
    right = draw(1, 2, 4, 4)
    assert facts(result(right[..., ::-1], right))["values"].numbers == {"same_in_head": True}
    swapped = facts(result(right[:, ::-1], right))["values"]
    assert swapped.numbers["swapped"] == [[[0, 0], [0, 1]], [[0, 1], [0, 0]]]
    assert "values" not in facts(result(right + 1, right))


def test_shapes_that_differ_are_a_difference_without_a_place() -> None:
    found = tally()
    found.compare((0, 0), np.zeros((1, 2, 3, 3)), np.zeros((1, 1, 3, 3)), 1.0)
    assert (found.result().verdict, dict(found.result().where)) == ("different", {})


def test_the_slope_of_scores_and_its_error() -> None:
    right = draw(1, 2, 20, 30)
    noise = np.random.default_rng(1).normal(size=right.shape) * 1e-3
    slope = Slope()
    slope.add(1.01 * right + noise, right)
    excess, error = slope.excess
    assert abs(excess - 0.01) < 4 * error
    assert 1e-5 < error < 1e-4
    assert slope.is_off("bfloat16") is True
    assert "left = 1.0" in slope.words


@pytest.mark.parametrize("seed", range(20))
def test_the_error_of_the_slope_counts_rounding_that_a_row_shares(seed: int) -> None:
    """q rounded to bfloat16 moves whole rows: single elements would say 3 times too sure."""
    from attn_cli.core.rounding import round_to

    rng = np.random.default_rng(seed)
    q, k = rng.normal(size=(2, 1, 1, 40, 16))
    slope = Slope()
    slope.add(round_to(q, "bfloat16") @ round_to(k, "bfloat16").mT, q @ k.mT)
    excess, error = slope.excess
    assert abs(excess) < 5 * error
    assert not slope.is_off("bfloat16")


def test_a_slope_of_nothing_is_no_number() -> None:
    assert np.isnan(Slope().excess[0])
    flat = Slope()
    flat.add(np.zeros((1, 1, 20, 20)), np.zeros((1, 1, 20, 20)))
    assert np.isnan(flat.excess[0])
    assert not flat.is_off("float32")


def test_tolerances_grow_with_the_right_side() -> None:
    right = np.array([0.0, -2.0, np.inf])
    np.testing.assert_allclose(Tolerance(1e-3, 0.5).allowed(7.0, right), [1e-3, 1.001, 1e-3])
    assert Tolerance().allowed(7.0, right) == 7.0
    assert Tolerance(rtol=0.1).given


def test_the_coarser_precision_counts_ulps() -> None:
    assert coarser("float64", "bfloat16") == "bfloat16"
    assert coarser("float16", "float32") == "float16"
