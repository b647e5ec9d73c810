"""Items of a mask: every batch item and head counted, and drawn as a grid of cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.masks import Mask, MaskContext
from attn_cli.core.results_mask import MaskItem
from attn_cli.masks.counting import (
    Allowance,
    Counter,
    Counts,
    Tally,
    TooMuch,
    spread_rows,
)

CELLS = 32  # up to this many queries and keys each pair has its own cell
SAMPLED = 2**25  # pairs that an estimate looks at
ROW_BY_TILES = 2**15  # what a row costs that is asked about tile by tile, in pairs evaluated
MOST_ROWS = 32  # of every row of cells, in an estimate

Progress = Callable[[int, int], None]
Grid = tuple[tuple[range, ...], tuple[range, ...]]


@dataclass(frozen=True, slots=True)
class Counted:
    """The items, and whether they were counted; else they are estimated from some rows."""

    items: tuple[MaskItem, ...]
    exact: bool


def grid_of(queries: int, keys: int) -> Grid:
    """The ranges of queries and of keys that the cells of a picture stand for."""
    return _ranges(queries), _ranges(keys)


def count_items(
    mask: Mask, context: MaskContext, *, scattered: bool, progress: Progress | None = None
) -> Counted:
    """Every item and head. Where that is too much work, some rows of each, spread evenly.

    `scattered`: tiles of the mask tell nothing, so that every pair must be evaluated.
    """
    allowance = Allowance()
    every = [(b, h) for b in range(context.batch) for h in range(context.heads)]
    grid = grid_of(context.queries, context.keys)
    try:
        items = []
        for done, (b, h) in enumerate(every):
            counter = Counter(mask, b, h, context.q_offset, scattered, allowance)
            items.append(_item(b, h, counter.tally(*grid), grid, exact=True))
            if progress is not None:
                progress(done + 1, len(every))
        return Counted(tuple(items), exact=True)
    except TooMuch:
        estimates = _estimates(mask, context, grid, every, scattered)
        return Counted(tuple(estimates), exact=False)


def _estimates(
    mask: Mask,
    context: MaskContext,
    grid: Grid,
    every: Sequence[tuple[int, int]],
    scattered: bool,
) -> Iterator[MaskItem]:
    """Counted in some rows of every range of queries, up to MOST_ROWS."""
    pairs = context.keys if scattered else ROW_BY_TILES
    each = SAMPLED // (len(every) * pairs * len(grid[0]))
    rows = spread_rows(grid[0], min(max(each, 1), MOST_ROWS))
    for b, h in every:
        unlimited = Allowance(left=2**62)
        counter = Counter(mask, b, h, context.q_offset, scattered, unlimited)
        tally = counter.sampled(rows, *grid)
        yield _item(b, h, tally, grid, exact=False)


def items_of_array(visible: NDArray[np.bool_]) -> tuple[MaskItem, ...]:
    """Every item and head of a (B, H, L, S) array."""
    batch, heads, queries, keys = visible.shape
    grid = grid_of(queries, keys)
    starts = [[some.start for some in ranges] for ranges in grid]
    items = []
    for b, h in np.ndindex(batch, heads):
        seen = visible[b, h]
        by_column = np.add.reduceat(seen, starts[1], axis=1, dtype=np.int64)
        cells = np.add.reduceat(by_column, starts[0], axis=0)
        tally = Tally(np.arange(queries), by_column.sum(1), cells)
        items.append(_item(b, h, tally, grid, exact=True))
    return tuple(items)


def visible_pairs(
    mask: Mask, context: MaskContext, allowance: Allowance, *, scattered: bool
) -> int:
    """The visible pairs of every item and head together; TooMuch where that is too much work."""
    total = 0
    for b in range(context.batch):
        for h in range(context.heads):
            counter = Counter(mask, b, h, context.q_offset, scattered, allowance)
            total += counter.total(range(context.queries), range(context.keys))
    return total


def _item(b: int, h: int, tally: Tally, grid: Grid, *, exact: bool) -> MaskItem:
    queries, keys = grid[0][-1].stop, grid[1][-1].stop
    visible = int(tally.keys.sum())
    if not exact:
        visible = round(tally.keys.mean() * queries)
    rows = _rows_in(tally.rows, grid[0])
    area = np.outer(rows, [len(across) for across in grid[1]])
    return MaskItem(b, h, visible, queries * keys, tally.rows, tally.keys, tally.cells / area)


def _rows_in(rows: Counts, ranges: tuple[range, ...]) -> Counts:
    """How many of the counted rows lie in each range."""
    bounds = np.searchsorted(rows, [ranges[0].start, *(some.stop for some in ranges)])
    return np.diff(bounds)


def _ranges(length: int) -> tuple[range, ...]:
    step = -(-length // CELLS)
    return tuple(range(at, min(at + step, length)) for at in range(0, length, step))
