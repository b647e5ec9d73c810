"""Growth: the exponent p of a cost that grows as n^p, fitted to measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FEWEST = 3  # points: through two of them any line fits


@dataclass(frozen=True, slots=True)
class Growth:
    """The exponent of n^p over `points` lengths; NaN where they are too few, and `reason` why."""

    exponent: float
    points: int
    reason: str = ""


def fitted(lengths: Sequence[int], costs: Sequence[float], *, least: float = 0.0) -> Growth:
    """The slope of ln cost over ln length, by least squares.

    Costs that are NaN or not above `least`, where the measurement resolves nothing, take no part.

    >>> round(fitted([1024, 2048, 4096], [1.0, 4.0, 16.0]).exponent, 9)
    2.0
    """
    pairs = [(n, cost) for n, cost in zip(lengths, costs, strict=True) if cost > least]
    points = len({n for n, _ in pairs})
    if points < FEWEST:
        noun = "length" if points == 1 else "lengths"
        return Growth(math.nan, points, f"{points} {noun}, and a fit takes {FEWEST}")
    x, y = np.log(np.array(pairs, dtype=np.float64)).T
    x, y = x - x.mean(), y - y.mean()
    return Growth(float((x @ y) / (x @ x)), points)
