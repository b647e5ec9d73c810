"""Counting what a mask lets through, row by row and cell by cell, without an L × S array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.masks import Mask, TileKind

Counts = NDArray[np.int64]

AT_ONCE = 2**22  # pairs that are evaluated at once
LEAF = 2**14  # pairs; a smaller tile is evaluated, not asked
DENSE = 2**20  # pairs; a smaller mask is evaluated whole, which is cheaper than asking
ZERO = np.zeros(1, np.int64)
ASKING = 2**8  # what asking about a tile costs, in pairs evaluated


class TooMuch(Exception):
    """The work has gone beyond what was allowed."""


@dataclass(slots=True)
class Allowance:
    """How many pairs may still be evaluated: what takes a second or a few."""

    left: int = 150_000_000

    def spend(self, pairs: int) -> None:
        """TooMuch where it is used up."""
        self.left -= pairs
        if self.left < 0:
            raise TooMuch


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """What one batch item and head of a mask lets through.

    `keys` (rows,) counts the visible keys of the queries `rows`, by index. `cells` (R, C) counts
    the visible pairs of those rows in each cell of a grid.
    """

    rows: Counts
    keys: Counts
    cells: Counts


@dataclass(frozen=True, slots=True, eq=False)
class Counter:
    """Counts one batch item and head; query i stands at position `q_offset` + i.

    `scattered`: tiles of the mask tell nothing, so that every pair is evaluated.
    """

    mask: Mask
    batch: int
    head: int
    q_offset: int
    scattered: bool = False
    allowance: Allowance = field(default_factory=Allowance)

    def tally(self, rows: Sequence[range], columns: Sequence[range]) -> Tally:
        """Every pair of the ranges of queries and keys, which follow one another from 0."""
        queries, keys = range(rows[-1].stop), range(columns[-1].stop)
        if self.scattered or len(queries) * len(keys) <= DENSE:
            self.allowance.spend(len(queries) * len(keys))
            return self._evaluated(np.arange(len(queries)), rows, columns)
        of_row = np.zeros(len(queries), np.int64)
        cells = np.zeros((len(rows), len(columns)), np.int64)
        for r, some in enumerate(rows):
            for c, across in enumerate(columns):
                before = of_row[some.start : some.stop].sum()
                self._add(some, across, of_row)
                cells[r, c] = of_row[some.start : some.stop].sum() - before
        return Tally(np.arange(len(queries)), of_row, cells)

    def sampled(self, rows: Counts, ranges: Sequence[range], columns: Sequence[range]) -> Tally:
        """The same of some rows only; every range of queries holds one at least."""
        if self.scattered:
            return self._evaluated(rows, ranges, columns)
        of_row = np.zeros(ranges[-1].stop, np.int64)
        by_column = np.zeros((rows.size, len(columns)), np.int64)
        for place, row in enumerate(rows.tolist()):
            for c, across in enumerate(columns):
                before = of_row[row]
                self._add(range(row, row + 1), across, of_row)
                by_column[place, c] = of_row[row] - before
        return _tally(rows, ranges, by_column)

    def _evaluated(self, rows: Counts, ranges: Sequence[range], columns: Sequence[range]) -> Tally:
        keys = np.arange(columns[-1].stop)
        starts = [across.start for across in columns]
        by_column = np.empty((rows.size, len(columns)), np.int64)
        step = max(1, AT_ONCE // keys.size)
        for first in range(0, rows.size, step):
            some = rows[first : first + step]
            seen = self._evaluate(some, keys)
            by_column[first : first + step] = np.add.reduceat(seen, starts, axis=1, dtype=np.int64)
        return _tally(rows, ranges, by_column)

    def total(self, queries: range, keys: range) -> int:
        """How many pairs are visible."""
        return int(self.tally([queries], [keys]).keys.sum())

    def _add(self, queries: range, keys: range, of_row: Counts) -> None:
        """Adds the visible keys of a tile to those of its rows."""
        self.allowance.spend(ASKING)
        absolute = range(queries.start + self.q_offset, queries.stop + self.q_offset)
        kind = self.mask.tile(self.batch, self.head, absolute, keys)
        here = of_row[queries.start : queries.stop]
        if kind is TileKind.FULL:
            here += len(keys)
        elif kind is TileKind.MIXED and len(queries) * len(keys) <= LEAF:
            self.allowance.spend(len(queries) * len(keys))
            rows, columns = np.arange(queries.start, queries.stop), np.arange(keys.start, keys.stop)
            here += self._evaluate(rows, columns).sum(1)
        elif kind is TileKind.MIXED:
            for part, across in _halves(queries, keys):
                self._add(part, across, of_row)

    def _evaluate(self, rows: Counts, keys: Counts) -> NDArray[np.bool_]:
        item, head = np.array([[self.batch]]), np.array([[self.head]])
        seen = self.mask(item, head, rows[:, np.newaxis] + self.q_offset, keys[np.newaxis])
        return np.broadcast_to(seen, (rows.size, keys.size))


def total_by_distance(
    mask: Mask, *, queries: int, keys: int, q_offset: int, allowance: Allowance
) -> int:
    """The visible pairs of a mask that depends on q − k alone: each distance is evaluated once."""
    first, last = q_offset - keys + 1, q_offset + queries - 1  # of the distances there are
    allowance.spend(last - first + 1)
    count = 0
    for start in range(first, last + 1, AT_ONCE):
        distance = np.arange(start, min(start + AT_ONCE, last + 1))
        k_pos = np.maximum(-distance, 0)
        seen = np.broadcast_to(mask(ZERO, ZERO, k_pos + distance, k_pos), distance.shape)
        # Key k stands at this distance from query k + distance, where there is such a query.
        least = np.maximum(0, q_offset - distance)
        most = np.minimum(keys - 1, q_offset + queries - 1 - distance)
        count += int((most - least + 1)[seen].sum())
    return count


def _tally(rows: Counts, ranges: Sequence[range], by_column: Counts) -> Tally:
    first_rows = np.searchsorted(rows, [some.start for some in ranges])
    return Tally(rows, by_column.sum(1), np.add.reduceat(by_column, first_rows, axis=0))


def spread_rows(ranges: Sequence[range], each: int) -> Counts:
    """Up to `each` rows of every range, scattered evenly but not at even steps, in order."""
    rows: list[int] = []
    for some in ranges:
        if len(some) <= each:
            rows += some
            continue
        golden = (np.arange(1, each + 1) * 0.6180339887498949) % 1
        rows += sorted({some.start + int(part * len(some)) for part in golden})
    return np.array(rows, np.int64)


def _halves(queries: range, keys: range) -> list[tuple[range, range]]:
    """The tile cut across its longer side."""
    if len(queries) >= len(keys):
        middle = queries.start + len(queries) // 2
        return [(range(queries.start, middle), keys), (range(middle, queries.stop), keys)]
    middle = keys.start + len(keys) // 2
    return [(queries, range(keys.start, middle)), (queries, range(middle, keys.stop))]
