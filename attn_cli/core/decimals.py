"""Decimals: numbers as they are written on paper, and the arithmetic of what is written.

A number that is written short is exact; one that is rounded keeps all its digits. Every operation
takes written numbers, so that a reader with a pocket calculator gets from each line to the next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext

import numpy as np

# Nothing is trapped: NaN and infinity pass, as they do in the engines.
EXACT = Context(prec=1500, Emin=-5000, Emax=5000, traps=[])  # holds any sum of any float64 products
ROUGH = Context(prec=50, Emin=-5000, Emax=5000, traps=[])

LARGEST = Decimal("1.7976931348623158e308")  # beyond it float64 has only infinity
SMALLEST = Decimal("2.4703282292062327e-324")  # nothing nearer to 0 is a float64

PLAIN = (-4, 7)  # powers of ten between which a number is written without an exponent
TINY = -3  # where the largest number of a group is below 10^TINY, digits count from its first one
LEAST = 2  # digits of a number that is too small for the places of its group

STEEP_TANH, FLAT_TANH = Decimal("1e-8"), Decimal(60)  # below and beyond: its series and its limit

ZERO = Decimal(0)
NAN = Decimal("NaN")


@dataclass(frozen=True, slots=True)
class Places:
    """How a group of numbers is written: `digits` were asked for, and `places` follow the point.

    From 10^7 on a number has `digits` places after its first digit; one that is too small for the
    places has a few more, so that it has two digits at least, and digits − 3.
    """

    digits: int
    places: int

    def unit(self, number: Decimal) -> int:
        """The power of ten of the last digit that a number may have here."""
        if not number.is_finite() or number == 0:
            return -self.places
        first = number.adjusted()
        if first >= PLAIN[1]:
            return first - self.digits
        return min(-self.places, first - max(LEAST, self.digits - 3) + 1)

    def __call__(self, number: Decimal) -> Decimal:
        """The number as it is written here; what lies beyond float64 is ±∞ or 0 as it is there."""
        if not number.is_finite():
            return number
        if number.copy_abs() < SMALLEST:
            return ZERO
        if number.copy_abs() > LARGEST:
            return Decimal("Infinity").copy_sign(number)
        unit, last = self.unit(number), _last(number)
        if last == unit:
            return number
        if last > unit:
            return short(number)
        if number.adjusted() >= PLAIN[1] and _last(exact := short(number)) >= unit:
            return exact  # 1e20, which was summed with all its zeros
        rounded = _to(number, unit)
        return _to(rounded, max(unit, self.unit(rounded)))  # 9.99… may have become 10

    def whole(self, number: Decimal) -> Decimal:
        """The number to the last place of the group, however large it is."""
        if not number.is_finite() or number.adjusted() < -self.places:
            return self(number)
        if _last(number) > -self.places:
            return short(number)
        return _to(number, -self.places)


def _to(number: Decimal, unit: int) -> Decimal:
    """The number rounded to a power of ten, half to even."""
    return number.quantize(Decimal(1).scaleb(unit), context=EXACT)


def _last(number: Decimal) -> int:
    """The power of ten of a finite number's last digit."""
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return exponent


def places(numbers: Iterable[Decimal], digits: int) -> Places:
    """The places for a group of numbers: `digits`, more where all of them are small."""
    sizes = [number.adjusted() for number in numbers if number.is_finite() and number != 0]
    first = max(sizes, default=0)
    return Places(digits, digits if first >= TINY else digits - first)


def written(numbers: Sequence[Decimal], digits: int) -> list[Decimal]:
    """The numbers of one group, rounded to the places that they share."""
    return list(map(places(numbers, digits), numbers))


def given(numbers: Sequence[float], digits: int) -> list[Decimal]:
    """Numbers of one group that were read or computed, as they are written.

    A float32 is written as short as its file wrote it where the digits allow: 0.1, not 0.10000.

    >>> import numpy as np
    >>> list(map(text, given([float(np.float32(0.1)), 1 / 3], 5)))
    ['0.1', '0.33333']
    """
    wide = np.asarray(numbers, np.float64)
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    rounded = written(list(map(decimal, numbers)), digits)
    for place in np.flatnonzero(narrow == wide):
        if Decimal(str(narrow[place])) == rounded[place]:
            rounded[place] = short(rounded[place])
    return rounded


def decimal(number: float) -> Decimal:
    """The shortest decimal that is this float64.

    >>> decimal(0.1), decimal(2.0), decimal(-0.0)
    (Decimal('0.1'), Decimal('2'), Decimal('0'))
    """
    return short(Decimal(repr(float(number))))


def short(number: Decimal) -> Decimal:
    """The number without zeros at its end.

    >>> short(Decimal("2.50")), short(Decimal("100"))
    (Decimal('2.5'), Decimal('100'))
    """
    if not number.is_finite():
        return number
    if number == 0:
        return ZERO
    stripped = number.normalize(EXACT)
    whole = stripped == stripped.to_integral_value() and stripped.adjusted() < PLAIN[1]
    return stripped.quantize(Decimal(1)) if whole else stripped


def text(number: Decimal) -> str:
    """A number as it is written: 0.30720, 9.4e-14, 1e20, NaN, inf, -inf.

    >>> [text(Decimal(number)) for number in ("0.30720", "0.000094", "1E+20", "-Infinity")]
    ['0.30720', '9.4e-5', '1e20', '-inf']
    """
    if number.is_nan():
        return "NaN"
    if number.is_infinite():
        return "inf" if number > 0 else "-inf"
    if number == 0 or PLAIN[0] <= number.adjusted() < PLAIN[1]:
        return f"{number:f}"
    mantissa = number.scaleb(-number.adjusted(), context=EXACT)
    return f"{mantissa:f}e{number.adjusted()}"


def product(a: Decimal, b: Decimal) -> Decimal:
    return EXACT.multiply(a, b)


def total(numbers: Iterable[Decimal]) -> Decimal:
    """The exact sum; 0 of nothing."""
    result = ZERO
    for number in numbers:
        result = EXACT.add(result, number)
    return result


def difference(a: Decimal, b: Decimal) -> Decimal:
    return EXACT.subtract(a, b)


def quotient(a: Decimal, b: Decimal) -> Decimal:
    return ROUGH.divide(a, b)


def root(a: Decimal) -> Decimal:
    return ROUGH.sqrt(a)


def exponential(a: Decimal) -> Decimal:
    """eᵃ; beyond float64 it need not be told how far."""
    if a.is_finite() and abs(a) > 1000:
        return ZERO if a < 0 else Decimal("Infinity")
    return a.exp(ROUGH)


def tanh(a: Decimal) -> Decimal:
    """(e²ᵃ − 1) / (e²ᵃ + 1); near 0, where that cancels, a − a³/3 + 2a⁵/15."""
    if a.is_nan():
        return a
    if abs(a) > FLAT_TANH:
        return Decimal(1).copy_sign(a)
    with localcontext(ROUGH):
        if abs(a) < STEEP_TANH:
            return a * (1 - a**2 / 3 + 2 * a**4 / 15)
        power = (2 * a).exp()
        return (power - 1) / (power + 1)


def cosine(angle: Decimal) -> Decimal:
    return decimal(math.cos(float(angle)))


def sine(angle: Decimal) -> Decimal:
    return decimal(math.sin(float(angle)))


def largest(numbers: Iterable[Decimal]) -> Decimal:
    """The largest; NaN where one is NaN; −∞ of nothing."""
    result = Decimal("-Infinity")
    for number in numbers:
        if number.is_nan():
            return NAN
        result = max(result, number)
    return result
