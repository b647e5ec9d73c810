"""Lines that are too long for paper: their largest terms, and the rest as one."""

from __future__ import annotations

from decimal import Decimal

import pytest

from attn_cli.core.decimals import Places
from attn_cli.core.explanation import Line, Rest, Step, Term, limited

FIVE = Places(5, 5)


def line(*products: str, rest: Rest | None = None) -> Line:
    terms = [Term(Decimal(1), Decimal(p), Decimal(p), at) for at, p in enumerate(products)]
    total = sum((Decimal(p) for p in products), Decimal(0))
    return Line("0", total, tuple(terms), 0, rest, places=FIVE, ends=FIVE)


def test_the_largest_terms_stay_in_their_order() -> None:
    short = line("0.1", "-3", "0.25", "2", "-0.5").shortened(2)
    assert [term.at for term in short.terms] == [1, 3]
    assert short.rest == Rest(3, Decimal("-0.15"))
    assert short.result == Decimal("-1.15")


def test_a_rest_that_is_there_grows() -> None:
    short = line("1", "2", rest=Rest(7, Decimal("0.5"))).shortened(1)
    assert short.rest == Rest(8, Decimal("1.5"))


def test_nothing_is_left_out_of_a_short_line() -> None:
    whole = line("1", "2")
    assert whole.shortened(2) is whole


def test_nan_and_infinity_are_never_left_out() -> None:
    short = line("5", "NaN", "7", "Infinity").shortened(2)
    assert [term.at for term in short.terms] == [1, 3]
    assert short.rest == Rest(2, Decimal(12))


def test_the_rest_is_told_to_the_last_place_however_large_it_is() -> None:
    short = line("-100000000.12345", "100000000.5", "200000000.25").shortened(1)
    assert short.rest is not None
    assert str(short.rest.value) == "0.37655"


def test_terms_along_the_keys_are_not_shortened() -> None:
    step = Step("context", "dot", "weights · v", (line(*"12345678901234"),), 0, "key")
    assert step.shortened(2) == step.lines


@pytest.mark.parametrize(
    "count, wanted, written",
    [(3, None, 3), (12, None, 12), (13, None, 8), (300, 20, 20), (5, 20, 5), (4, 1, 1)],
)
def test_how_many_are_written(count: int, wanted: int | None, written: int) -> None:
    assert limited(count, wanted) == written
