"""Moments of scores with their sampling error, although scores share queries and keys."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.results_numerics import Measured

Array = NDArray[Any]


@dataclass(slots=True, eq=False)
class ScoreMoments:
    """Mean and standard deviation of the visible, finite scores, gathered block by block.

    Scores of one query share it, and so do those of one key: they are clustered both ways. The
    variance of a mean of numbers e is then that of its row sums plus that of its column sums less
    that of the single numbers (Cameron, Gelbach and Miller 2011, "Robust inference with multiway
    clustering"), and here never below the last: what independent scores would have. Powers are kept
    about `pivot`, a number near the mean.
    """

    pivot: float
    powers: Array = field(default_factory=lambda: np.zeros(5))  # Σ 1, x, x², x³, x⁴
    rows: list[Array] = field(default_factory=list)  # (3, n): Σ 1, x, x² of each query
    columns: dict[tuple[int, int], Array] = field(default_factory=dict)  # item, kv head → (3, S)

    def add(self, scores: Array, seen: Array, *, batch: int, kv: int) -> None:
        """Scores (n, S) of one head that reads key/value head `kv`."""
        with np.errstate(all="ignore"):
            seen = seen & np.isfinite(scores)
            x = np.where(seen, scores - self.pivot, 0.0)
            parts = np.stack([seen.astype(np.float64), x, x * x])  # (3, n, S)
            self.powers += [*parts.sum((1, 2)), (x**3).sum(), (x**4).sum()]
            self.rows.append(parts.sum(2))
            self.columns[batch, kv] = self.columns.get((batch, kv), 0) + parts.sum(1)

    @property
    def count(self) -> int:
        return int(self.powers[0])

    @property
    def _sound(self) -> bool:
        return self.count > 0 and bool(np.isfinite(self.powers).all())

    def mean(self) -> Measured:
        """NaN where nothing is visible, or the numbers are beyond float64."""
        if not self._sound:
            return Measured(math.nan, math.nan)
        n, one, two = self.powers[:3]
        mean = one / n
        clusters = self._clusters()
        own = two - n * mean * mean
        return Measured(self.pivot + mean, self._error([c[1] - mean * c[0] for c in clusters], own))

    def deviation(self) -> Measured:
        """The standard deviation; its error by that of the variance. NaN as for the mean."""
        if not self._sound:
            return Measured(math.nan, math.nan)
        n, one, two, three, four = self.powers
        mean = one / n
        variance = max(two / n - mean * mean, 0.0)
        fourth = four - 4 * mean * three + 6 * mean**2 * two - 4 * mean**3 * one + n * mean**4
        summed = [
            c[2] - 2 * mean * c[1] + c[0] * (mean * mean - variance) for c in self._clusters()
        ]
        error = self._error(summed, fourth - n * variance**2)
        root = math.sqrt(variance)
        return Measured(root, error / (2 * root) if root else 0.0)

    def _clusters(self) -> tuple[Array, Array]:
        return np.concatenate(self.rows, axis=1), np.concatenate([*self.columns.values()], axis=1)

    def _error(self, summed: list[Array], own: float) -> float:
        with np.errstate(all="ignore"):
            both = sum(float((part * part).sum()) for part in summed) - own
            return math.sqrt(max(both, own, 0.0)) / self.count


def share(hit: Array, groups: Array) -> Measured:
    """The mean of numbers of rows (n,), with an error that lets rows of one group go together.

    `groups` (n,) number the keys that a row looks at; NaN where there is no row.
    """
    if not hit.size:
        return Measured(math.nan, math.nan)
    mean = float(hit.mean())
    e = hit - mean
    together = np.bincount(groups, weights=e)
    own = float((e * e).sum())
    several = len(together) if np.count_nonzero(np.bincount(groups)) > 1 else 0
    grouped = float((together * together).sum()) * several / max(several - 1, 1)
    return Measured(mean, math.sqrt(max(own, grouped)) / hit.size)


def proportion(hit: Array, groups: Array) -> Measured:
    """The share of rows that are hits, with an error that is not 0 where all or none of few are.

    Never below that of Agresti and Coull (1998): as if 4 more rows had come, 2 of them hits.
    """
    measured, rows = share(hit.astype(np.float64), groups), len(hit)
    near = (int(hit.sum()) + 2) / (rows + 4)
    least = math.sqrt(near * (1 - near) / (rows + 4))
    return measured if not rows else Measured(measured.value, max(measured.error, least))


def by_chance(hits: int, rows: int, share: float) -> float:
    """The probability of at least `hits` of `rows`, each a hit with probability `share`.

    >>> round(by_chance(1, 4, 0.05), 4), round(by_chance(4, 4, 0.05), 8)
    (0.1855, 6.25e-06)
    """
    if hits == 0 or share == 1:
        return 1.0
    if share == 0:
        return 0.0
    choices = math.lgamma(rows + 1) - math.lgamma(hits + 1) - math.lgamma(rows - hits + 1)
    term = math.exp(choices + hits * math.log(share) + (rows - hits) * math.log1p(-share))
    total, odds = 0.0, share / (1 - share)
    for k in range(hits, rows + 1):
        total += term
        term *= (rows - k) / (k + 1) * odds
        if k > rows * share and term < 1e-12 * total:  # they only fall from here
            break
    return min(total, 1.0)


def predicted_deviation(q: Array, k: Array, group: int) -> float:
    """The deviation of q·k if queries and keys (B, H, ·, d_k) and features were independent.

    √Σ over features of E q² · E k² − (E q)² · (E k)², the variances averaged over the heads.
    """
    with np.errstate(all="ignore"):
        q2, k2 = (np.square(array, dtype=np.float64).mean(2) for array in (q, k))
        q1, k1 = (array.mean(2, dtype=np.float64) for array in (q, k))
        k1, k2 = np.repeat(k1, group, 1), np.repeat(k2, group, 1)
        return math.sqrt(max(float((q2 * k2 - q1**2 * k1**2).sum(-1).mean()), 0.0))
