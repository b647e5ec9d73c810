"""Seeded numbers that never change: uniform and normal ones, counted out of a hash.

Draw number i of a stream depends on (seed, stream, i) alone. Only whole numbers and +, −, ×, ÷, √,
which IEEE 754 rounds in one way, take part, so every bit is the same on every machine and with
every version of numpy; a library's logarithm or sine may differ in its last bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.hashing import draw, mix, word_of

Array = NDArray[Any]

LARGEST_SEED = 2**64 - 1

# Acklam's rational approximation of the normal quantile (2003): relative error below 1.2e-9.
TAIL = 0.02425
CENTRE_OVER = (
    -3.969683028665376e01,
    2.209460984245205e02,
    -2.759285104469687e02,
    1.383577518672690e02,
    -3.066479806614716e01,
    2.506628277459239e00,
)
CENTRE_UNDER = (
    -5.447609879822406e01,
    1.615858368580409e02,
    -1.556989798598866e02,
    6.680131188771972e01,
    -1.328068155288572e01,
    1.0,
)
TAIL_OVER = (
    -7.784894002430293e-03,
    -3.223964580411365e-01,
    -2.400758277161838e00,
    -2.549732539343734e00,
    4.374664141464968e00,
    2.938163982698783e00,
)
TAIL_UNDER = (
    7.784695709041462e-03,
    3.224671290700398e-01,
    2.445134137142996e00,
    3.754408661907416e00,
    1.0,
)
LN_2 = 0.6931471805599453
SERIES = 12  # terms of the logarithm's series: the rest is below 2e-17


def uniform(seed: int, stream: int, shape: tuple[int, ...]) -> Array:
    """Numbers strictly between 0 and 1, as many as `shape` holds, in row-major order.

    `seed` is from 0 to LARGEST_SEED; different streams of one seed share no draws.
    """
    count = np.arange(1, math.prod(shape) + 1, dtype=np.uint64)
    words = draw(mix(mix(word_of(seed)) + word_of(stream)), count)
    numbers: Array = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return numbers.reshape(shape)


def normal(seed: int, stream: int, shape: tuple[int, ...]) -> Array:
    """Unit normal numbers, as many as `shape` holds: the quantiles of `uniform`."""
    return quantile(uniform(seed, stream, shape))


def quantile(p: Array) -> Array:
    """The number that a unit normal variable falls below with probability p, 0 < p < 1.

    >>> quantile(np.array([0.5, 0.975])).round(6).tolist()
    [0.0, 1.959964]
    """
    centred = p - 0.5
    square = centred * centred
    centre = centred * _polynomial(square, CENTRE_OVER) / _polynomial(square, CENTRE_UNDER)
    outer = np.minimum(p, 1 - p)
    root = np.sqrt(-2 * log(np.minimum(outer, TAIL)))
    tail = _polynomial(root, TAIL_OVER) / _polynomial(root, TAIL_UNDER)
    return np.where(outer < TAIL, np.where(p < 0.5, tail, -tail), centre)


def log(x: Array) -> Array:
    """The natural logarithm of positive numbers by + − × ÷ alone, to a few ulp.

    x = m · 2^e with 1/√2 ≤ m < √2, and ln m = 2·(t + t³/3 + t⁵/5 + …) for t = (m − 1) / (m + 1).
    """
    mantissa, exponent = np.frexp(x)  # exact: 1/2 ≤ mantissa < 1
    low = mantissa < math.sqrt(0.5)
    mantissa, exponent = np.where(low, 2 * mantissa, mantissa), exponent - low
    t = (mantissa - 1) / (mantissa + 1)
    square = t * t
    series = _polynomial(square, tuple(1 / (2 * i + 1) for i in reversed(range(SERIES))))
    logarithm: Array = exponent * LN_2 + 2 * t * series
    return logarithm


def _polynomial(x: Array, coefficients: tuple[float, ...]) -> Array:
    """Horner's scheme, the coefficient of the highest power first."""
    total = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total
