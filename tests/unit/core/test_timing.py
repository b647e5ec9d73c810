"""Turns are taken in order; medians, spreads and ratios are those of the numbers given."""

from __future__ import annotations

import math

import pytest

from attn_cli.core.timing import in_turn, median, ratio, spread


def test_calls_take_turns() -> None:
    calls = {"a": lambda: 1.0, "b": lambda: 2.0}
    assert list(in_turn(calls, rounds=2)) == [("a", 1.0), ("b", 2.0)] * 2


def test_a_call_that_gives_nothing_drops_out() -> None:
    answers = iter([1.0, None, 3.0])
    calls = {"a": lambda: 0.0, "b": lambda: next(answers)}
    assert list(in_turn(calls, rounds=3)) == [("a", 0.0), ("b", 1.0), ("a", 0.0), ("a", 0.0)]


def test_what_was_measured_before_an_interruption_is_there() -> None:
    def interrupted() -> float:
        raise KeyboardInterrupt

    turns = in_turn({"a": lambda: 1.0, "b": interrupted}, rounds=2)
    assert next(turns) == ("a", 1.0)
    with pytest.raises(KeyboardInterrupt):
        next(turns)


def test_median_and_interquartile_range() -> None:
    runs = [5.0, 1.0, 2.0, 3.0, 4.0]
    assert median(runs) == 3.0
    assert spread(runs) == 2.0
    assert math.isnan(median([]))
    assert math.isnan(spread([1.0]))


def test_a_drift_of_the_machine_cancels_in_the_ratio() -> None:
    reference = [1.0, 2.0, 4.0, 8.0]
    assert ratio([3 * run for run in reference], reference) == 3.0
    assert ratio([3.0, 6.0], reference) == 3.0
    assert math.isnan(ratio([], reference))
