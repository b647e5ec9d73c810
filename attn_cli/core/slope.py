"""Slope: the constant ratio of two sets of scores, and how sure it is.

A factor on all scores that is off by less than their rounding shows in no single element, and in
all of them together: left ≈ slope · right, by least squares through the origin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.rounding import precision

Array = NDArray[Any]
SIGMAS = 5.0
ROUNDED = 0.75  # of an eps: a factor that was rounded itself is off by half of one at most
FEWEST = 16  # rows; fewer tell nothing of how sure the slope is


@dataclass(slots=True)
class Slope:
    """Gathers left − right against right over (1, H, L, S) parts of a stage.

    Rounding of one q moves a whole row, and of one k a whole column. So the error is taken from the
    sums of the rows and of the columns, not from single elements as if they were independent.
    """

    products: list[tuple[Array, Array]] = field(default_factory=list)
    squares: list[tuple[Array, Array]] = field(default_factory=list)

    def add(self, left: Array, right: Array) -> None:
        with np.errstate(all="ignore"):
            both = np.isfinite(left) & np.isfinite(right) & (np.abs(right) < 1e4)
            r = np.where(both, right, 0).astype(np.float64)
            product = (np.where(both, left, 0) - r) * r
            square = r * r
        self.products.append((product.sum(-1).ravel(), product.sum(-2).ravel()))
        self.squares.append((square.sum(-1).ravel(), square.sum(-2).ravel()))

    @property
    def excess(self) -> tuple[float, float]:
        """slope − 1 and its standard error; NaN where right is all 0 or has too few rows."""
        rows = np.concatenate([row for row, _ in self.products] or [np.zeros(0)])
        square = np.concatenate([row for row, _ in self.squares] or [np.zeros(0)])
        total = square.sum()
        if len(rows) < 3 or not total > 0:
            return math.nan, math.nan
        excess = rows.sum() / total
        spread = 0.0
        for axis in (0, 1):
            off = np.concatenate([part[axis] for part in self.products])
            of = np.concatenate([part[axis] for part in self.squares])
            spread += float(((off - excess * of) ** 2).sum())
        return float(excess), math.sqrt(spread) / float(total)

    def is_off(self, dtype: str) -> bool:
        """Whether the slope is not 1, beyond its error and beyond rounding the factor itself."""
        excess, error = self.excess
        if sum(len(part[0]) for part in self.products) < FEWEST:
            return False
        return abs(excess) > max(SIGMAS * error, ROUNDED * precision(dtype).eps)

    @property
    def words(self) -> str:
        """left = 1.0100000(4) × right, as far as the digits are sure."""
        excess, error = self.excess
        digits = 8 if error == 0 else min(12, max(2, 1 - math.floor(math.log10(error))))
        return f"left = {1 + excess:.{digits}f} × right (± {error:.1g})"
