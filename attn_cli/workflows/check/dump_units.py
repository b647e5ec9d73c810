"""Units: the last digit of numbers that somebody has written short, such as 0.266."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.onestep import EXACT

Array = NDArray[Any]
MOST_DECIMALS = {"float64": 9, "float32": 4}  # with more, a number is as it was computed
DYADIC = 1024.0  # a multiple of 1/1024 is written exactly, however few digits it has
LARGEST = 2.0**40  # fills are larger, and no NaN is smaller
PROVING = 2  # so many numbers that are no such multiple show how an array is written


def written_units(stages: Mapping[str, Array], dtype: str) -> dict[str, float]:
    """Stage → 10^−decimals, for the stages that are written with few decimals.

    What came in is taken as exact to the digits of the stages: 0.3 is an input that somebody
    chose, beside weights of 0.2660 it may have been 0.29996.

    >>> written_units({"q": np.array([0.3, 0.1]), "weights": np.array([0.266, 0.146])}, "float64")
    {'q': 0.001, 'weights': 0.001}
    """
    most = MOST_DECIMALS.get(dtype, 0)
    found = {name: unit for name, a in stages.items() if (unit := _unit(a, most, dtype))}
    finest = min((unit for name, unit in found.items() if name not in EXACT), default=0.0)
    chosen = {name: min(unit, finest) if name in EXACT else unit for name, unit in found.items()}
    return {name: unit for name, unit in chosen.items() if unit}


def _unit(array: Array, most: int, dtype: str) -> float:
    """10^−d for the fewest decimals d that all numbers have; 0 where they are written in full."""
    if not most:
        return 0.0
    numbers = array.astype(np.float64)
    numbers = numbers[np.abs(numbers) < LARGEST]
    numbers = numbers[numbers * DYADIC != np.round(numbers * DYADIC)]
    if len(numbers) < PROVING:
        return 0.0
    slack = 4 * float(np.finfo(dtype).eps) * np.abs(numbers)
    for decimals in range(1, most + 1):
        if (np.abs(numbers - np.round(numbers, decimals)) <= slack).all():
            return float(10.0**-decimals)
    return 0.0
