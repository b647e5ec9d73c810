"""Recomputing an explanation: every step from the numbers that stand in its JSON, and nothing else.

Its own arithmetic: fractions for what is rational, mpmath for the rest, no code of attn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import mpmath  # type: ignore[import-untyped]

Number = Fraction | float  # a float only where it is NaN or infinite
Fields = Mapping[str, Any]

LARGEST = Fraction(float.fromhex("0x1.fffffffffffffp+1023"))
SMALLEST = Fraction(float.fromhex("0x1p-1074"))
FAR = 5000  # powers of two
MORE_OF_THE_SCALE = 2  # digits of √d_k beyond those that are carried


def number(text: str | None) -> Number:
    """A number of the JSON; null is NaN."""
    if text is None:
        return math.nan
    assert isinstance(text, str)
    return float(text) if "inf" in text else Fraction(text)


def recompute(explanation: Fields) -> int:
    """Every line of every step within one unit of its last digit; how many lines there were."""
    count = 0
    for step in explanation["steps"]:
        for line in step["lines"]:
            if line["terms"]:
                check(step, line, explanation)
                count += 1
    return count


def check(step: Fields, line: Fields, explanation: Fields) -> None:
    """One line: its products, then its result."""
    where = f"{step['stage']} {line['label']}"
    digits = explanation["digits"]
    ending = digits.get(step["stage"], digits["carried"])
    ending = {"row_sum": digits["weights"], "merged": digits["context"]}.get(step["stage"], ending)
    if step["stage"] == "scale":
        ending += MORE_OF_THE_SCALE
    for term in line["terms"]:
        if "product" in term:
            agree(times(number(term["a"]), number(term["b"])), term["product"], None, where)
    exact = RESULTS[step["operation"]](line, explanation["input"]["d_k"])
    agree(exact, line["result"], ending, where)


def agree(exact: Number, shown: str | None, digits: int | None, where: str) -> None:
    """`shown` is `exact` to one unit of its last digit; exactly where it has fewer than `digits`.

    What float64 cannot hold is ±∞ or 0, as there.
    """
    told = number(shown)
    if isinstance(exact, Fraction) and abs(exact) > LARGEST:
        exact = math.inf if exact > 0 else -math.inf
    message = f"{where}: {shown} is written, the lines above give {exact!r}"
    if shown is None or isinstance(exact, float) or isinstance(told, float):
        assert told == exact or (told != told and exact != exact), message
        return
    mantissa, _, power = shown.partition("e")
    places = len(mantissa.partition(".")[2])
    unit = Fraction(10) ** (int(power or 0) - places)
    counted = places if int(power or 0) > 0 else places - int(power or 0)
    if digits is not None and counted < digits:
        unit = abs(told) * Fraction(10) ** -15 + SMALLEST
    assert abs(told - exact) <= unit, message


def times(a: Number, b: Number) -> Number:
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a * b
    return _beside_infinity(a) * _beside_infinity(b)


def _beside_infinity(number: Number) -> float:
    """What counts of a factor beside ±∞ or NaN: its sign. A fraction may be beyond any float."""
    if isinstance(number, Fraction):
        return float((number > 0) - (number < 0))
    return number


def total(numbers: Sequence[Number]) -> Number:
    infinite = [one for one in numbers if isinstance(one, float)]
    return sum(infinite) if infinite else sum(numbers, Fraction(0))


def of_terms(line: Fields, name: str) -> list[Number]:
    return [number(term[name]) for term in line["terms"]]


def rest_of(line: Fields) -> list[Number]:
    return [] if not line["rest"] or "sum" not in line["rest"] else [number(line["rest"]["sum"])]


def dot(line: Fields, d_k: int) -> Number:
    added = [number(line["added"])] if "added" in line else []
    return total([*of_terms(line, "product"), *rest_of(line), *added])


def summed(line: Fields, d_k: int) -> Number:
    return total([*of_terms(line, "a"), *rest_of(line)])


def largest(line: Fields, d_k: int) -> Number:
    numbers = of_terms(line, "a")
    lost = [one for one in numbers if one != one]
    return lost[0] if lost else max(numbers)


def subtracted(line: Fields, d_k: int) -> Number:
    (a,), (b,) = of_terms(line, "a"), of_terms(line, "b")
    return a - b


def multiplied(line: Fields, d_k: int) -> Number:
    return times(of_terms(line, "a")[0], of_terms(line, "b")[0])


def divided(line: Fields, d_k: int) -> Number:
    (a,), (b,) = of_terms(line, "a"), of_terms(line, "b")
    if b == 0:
        return math.nan
    return a / b


def transcendental(function: Callable[..., Any]) -> Callable[[Fields, int], Number]:
    """The function of a, and of b where there is one, to sixty digits."""

    def result(line: Fields, d_k: int) -> Number:
        (term,) = line["terms"]
        numbers = [number(term[name]) for name in ("a", "b") if name in term]
        with mpmath.workdps(60):
            value = function(*(mpmath_of(one) for one in numbers), line["index"], d_k)
            return fraction_of(value)

    return result


def mpmath_of(one: Number) -> Any:
    if isinstance(one, float):
        return mpmath.mpf(one)
    return mpmath.mpf(one.numerator) / one.denominator


def fraction_of(value: Any) -> Number:
    if not mpmath.isfinite(value):
        return float(value)
    sign, mantissa, exponent, bits = value._mpf_
    if abs(exponent + bits) > FAR:  # beyond float64, and too far for a fraction
        return Fraction(0) if exponent < 0 else (-math.inf if sign else math.inf)
    size = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    return Fraction(0) if size < SMALLEST / 2 else (-size if sign else size)


RESULTS: Mapping[str, Callable[[Fields, int], Number]] = {
    "same": lambda line, d_k: of_terms(line, "a")[0],
    "dot": dot,
    "sum": summed,
    "subtract": subtracted,
    "multiply": multiplied,
    "divide": divided,
    "max": largest,
    "sqrt": transcendental(lambda a, index, d_k: mpmath.sqrt(a)),
    "softcap": transcendental(lambda a, b, index, d_k: b * mpmath.tanh(a / b)),
    "exp": transcendental(lambda a, index, d_k: mpmath.exp(a)),
    "angle": transcendental(lambda a, b, index, d_k: a * b ** (mpmath.mpf(-2 * index) / d_k)),
    "cos": transcendental(lambda a, index, d_k: mpmath.cos(a)),
    "sin": transcendental(lambda a, index, d_k: mpmath.sin(a)),
}
