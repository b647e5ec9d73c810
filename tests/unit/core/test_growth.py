"""Exponents of synthetic costs, and where none is fitted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attn_cli.core.growth import fitted

LENGTHS = [128, 256, 1024, 4096]


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0])
def test_a_power_is_found(exponent: float) -> None:
    grown = fitted(LENGTHS, [3e-7 * n**exponent for n in LENGTHS])
    np.testing.assert_allclose(grown.exponent, exponent, rtol=0, atol=1e-12)
    assert (grown.points, grown.reason) == (4, "")


def test_it_is_the_line_of_least_squares() -> None:
    costs = [1.0, 7.0, 9.0, 80.0]
    slope = np.polyfit(np.log(LENGTHS), np.log(costs), 1)[0]
    np.testing.assert_allclose(fitted(LENGTHS, costs).exponent, slope, rtol=1e-12, atol=0)


def test_what_was_not_measured_or_not_resolved_takes_no_part() -> None:
    grown = fitted([1, 2, 4, 8, 16], [5.0, math.nan, 16.0, 64.0, 256.0], least=10.0)
    np.testing.assert_allclose(grown.exponent, 2.0, rtol=1e-12, atol=0)
    assert grown.points == 3


@pytest.mark.parametrize("costs", [[], [1.0], [1.0, 2.0], [1.0, math.nan, 3.0], [0.0, 1.0, 2.0]])
def test_too_few_points_give_no_exponent_and_a_reason(costs: list[float]) -> None:
    grown = fitted(LENGTHS[: len(costs)], costs)
    assert math.isnan(grown.exponent)
    assert "a fit takes 3" in grown.reason
    assert grown.points == sum(cost > 0 for cost in costs)
