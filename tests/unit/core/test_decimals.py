"""Numbers on paper: how they are rounded, how they are written, and what they make of NaN."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.core import decimals
from attn_cli.core.decimals import Places, decimal, text

FIVE = Places(5, 5)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    "number, written",
    [
        ("1", "1"),
        ("1.0", "1"),
        ("0.5", "0.5"),
        ("0.30720", "0.30720"),  # it was rounded to these digits
        ("0.307195", "0.30720"),
        ("0.153600", "0.15360"),
        ("-0.00000412", "-4.1e-6"),  # too small for five places: two digits
        ("9.3576229688401748e-14", "9.4e-14"),
        ("1234567.891", "1234567.891"),
        ("12345678.9", "1.23457e7"),
        ("100000000000000000000", "1e20"),
        ("9999999.9999999", "1.00000e7"),
        ("1.8e308", "inf"),
        ("-1.8e308", "-inf"),
        ("1e-400", "0"),
        ("0", "0"),
        ("NaN", "NaN"),
        ("-Infinity", "-inf"),
    ],
)
def test_number_is_written_to_five_places(number: str, written: str) -> None:
    assert text(FIVE(Decimal(number))) == written


def test_a_group_of_small_numbers_counts_digits_from_its_largest() -> None:
    numbers = [Decimal("1.23456789e-6"), Decimal("2.3456789e-8"), Decimal(0)]
    assert list(map(text, decimals.written(numbers, 5))) == ["1.23457e-6", "2.346e-8", "0"]


def test_float32_is_written_as_its_file_wrote_it() -> None:
    numbers = np.array([0.1, -2.25, 1 / 3], np.float32).astype(float).tolist()
    assert list(map(text, decimals.given(numbers, 5))) == ["0.1", "-2.25", "0.33333"]
    assert text(decimals.given(numbers, 9)[0]) == "0.100000001"  # which it is


@pytest.mark.parametrize("number", [0.1, 1e300, 5e-324, -2.5, 123456789.0, 2.0**60])
def test_decimal_is_that_float(number: float) -> None:
    assert float(decimal(number)) == number


@given(number=FLOATS, digits=st.integers(0, 15))
def test_rounding_is_within_half_a_unit_of_the_last_digit(number: float, digits: int) -> None:
    places = Places(digits, digits)
    written = places(decimal(number))
    unit = Fraction(10) ** places.unit(written)
    assert abs(Fraction(written) - Fraction(decimal(number))) <= unit / 2


@given(number=FLOATS, digits=st.integers(0, 15))
def test_text_loses_no_digit(number: float, digits: int) -> None:
    written = Places(digits, digits)(decimal(number))
    assert Decimal(text(written)).compare_total(written) == 0 or float(written) == 0


@given(a=FLOATS, b=FLOATS, c=FLOATS)
def test_sums_and_products_are_exact(a: float, b: float, c: float) -> None:
    x, y, z = map(decimal, (a, b, c))
    made = decimals.total([decimals.product(x, y), z, -z])
    assert Fraction(made) == Fraction(x) * Fraction(y)


@given(number=st.floats(-50, 50))
def test_tanh_and_exp_are_right_to_many_digits(number: float) -> None:
    with mpmath.workdps(60):
        for mine, right in ((decimals.tanh, mpmath.tanh), (decimals.exponential, mpmath.exp)):
            expected = right(mpmath.mpf(str(decimal(number))))
            got = mpmath.mpf(str(mine(decimal(number))))
            assert abs(got - expected) <= abs(expected) * mpmath.mpf(10) ** -35


def test_beyond_float64_exp_is_0_or_infinite() -> None:
    assert decimals.exponential(Decimal(-5000)) == 0
    assert decimals.exponential(Decimal(5000)) == Decimal("Infinity")
    assert decimals.exponential(Decimal("-Infinity")) == 0


@pytest.mark.parametrize(
    "made",
    [
        decimals.product(Decimal(0), Decimal("Infinity")),
        decimals.difference(Decimal("Infinity"), Decimal("Infinity")),
        decimals.quotient(Decimal(0), Decimal(0)),
        decimals.total([Decimal(1), Decimal("NaN")]),
        decimals.largest([Decimal(1), Decimal("NaN"), Decimal(2)]),
        decimals.exponential(Decimal("NaN")),
        decimals.tanh(Decimal("NaN")),
    ],
)
def test_nan_passes_and_is_made_where_float64_makes_it(made: Decimal) -> None:
    assert made.is_nan()


def test_largest_of_nothing_is_minus_infinity() -> None:
    assert float(decimals.largest([])) == -math.inf
