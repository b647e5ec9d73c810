"""One head's weights as numbers in shaded cells, written as fully as the width allows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len
from rich.text import Text

from attn_cli.core.results import WeightsView
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.names import Names
from attn_cli.render.terminal.numbers import ERROR, row_sum
from attn_cli.render.terminal.shade import weight_style

CORNERS = ("query ╲ key", "query")  # what stands above the queries, the fullest first
LONGEST_TOKEN = 16  # cells of a token beside or above the weights
LEAST_LIST = 40  # cells of the list of keys
LEAST_TOKEN = 7  # a longer token that would get fewer cells gives way to its index


@dataclass(frozen=True, slots=True)
class Writing:
    """How a weight is written: digits after the point, and the cells it takes with its space."""

    digits: int
    width: int
    leading_zero: bool = False
    sums: bool = True

    def __call__(self, weight: float) -> str:
        if self.digits == 0:
            return f"{100 * weight:.0f}"
        text = f"{weight:.{self.digits}f}"
        return text if self.leading_zero else text.removeprefix("0")[: self.width - 1]


WRITINGS = (  # the fullest first
    Writing(3, 6, leading_zero=True),
    Writing(3, 5),
    Writing(2, 4),
    Writing(2, 4, sums=False),
    Writing(0, 3, sums=False),
)


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of weights, laid out: texts and widths of its columns."""

    corner: str
    queries: Sequence[str]
    keys: Sequence[str]
    widths: Sequence[int]
    writing: Writing
    sums: Sequence[Text]
    numbered: bool = False

    @property
    def label_width(self) -> int:
        return max(cell_len(self.corner), *map(cell_len, self.queries))

    @property
    def sum_width(self) -> int:
        return 2 + max(text.cell_len for text in self.sums) if self.writing.sums else 0

    @property
    def width(self) -> int:
        return self.label_width + sum(self.widths) + self.sum_width


def cell_table(view: WeightsView, tolerance: float, names: Names) -> tuple[str, Text] | None:
    """What to say beside the title, and the table as full as the screen allows.

    None where it does not fit even in whole percentages.
    """
    for grid in _grids(view, tolerance, names):
        if names.screen.fits(grid.width):
            remark = "  weights in %" if grid.writing.digits == 0 else ""
            return remark, _drawn(grid, view, names)
    return None


def whole_table(view: WeightsView, tolerance: float, names: Names, *, corner: str) -> Text:
    """The table with nothing shortened, however wide."""
    grid = _grid(view, tolerance, names, corner, WRITINGS[0])
    return _drawn(_with_tokens(grid, view, names, LONGEST_TOKEN), view, names)


def _grid(view: WeightsView, tolerance: float, names: Names, corner: str, writing: Writing) -> Grid:
    """A table that waits for its keys."""
    queries = [_name("query", view, cover, names, LONGEST_TOKEN) for cover in view.query_ranges]
    sums = [row_sum(float(value), tolerance) for value in view.sums]
    return Grid(names.screen.sign(corner), queries, (), (), writing, sums)


def _grids(view: WeightsView, tolerance: float, names: Names) -> Iterator[Grid]:
    """Ways to lay the table out, the fullest first."""
    for writings in (WRITINGS[:2], WRITINGS[2:3], WRITINGS[3:4], WRITINGS[4:]):
        grids = [
            _grid(view, tolerance, names, corner, writing)
            for writing in writings
            for corner in CORNERS
        ]
        for grid in grids:
            for most in _token_widths(view, names, grid.writing):
                yield _with_tokens(grid, view, names, most)
        for grid in grids:
            yield _with_indices(grid, view, names)


def _token_widths(view: WeightsView, names: Names, writing: Writing) -> Iterator[int]:
    """How many cells the tokens above the weights may have, the most first."""
    yield from range(LONGEST_TOKEN, LEAST_TOKEN, -1)
    if _longest_key(view, names) < writing.width:
        yield writing.width - 1


def _drawn(grid: Grid, view: WeightsView, names: Names) -> Text:
    lines = [_head(grid, names.screen), *_lines(view, grid, names.screen)]
    if grid.numbered and names.labels is not None and names.labels.key != names.labels.query:
        lines.append(_key_list(view, names, grid.width))
    return Text("\n").join(lines)


def _longest_key(view: WeightsView, names: Names) -> int:
    return max(map(cell_len, _keys(view, names, LONGEST_TOKEN)))


def _keys(view: WeightsView, names: Names, most: int) -> list[str]:
    return [_name("key", view, cover, names, most) for cover in view.key_ranges]


def _with_tokens(grid: Grid, view: WeightsView, names: Names, most: int) -> Grid:
    keys = _keys(view, names, most)
    return replace(grid, keys=keys, widths=[max(grid.writing.width, cell_len(k) + 1) for k in keys])


def _with_indices(grid: Grid, view: WeightsView, names: Names) -> Grid:
    """Keys by index; the queries' tokens get theirs, so that the reader finds the keys there."""
    keys = [str(cover.start) for cover in view.key_ranges]
    widths = [max(grid.writing.width, len(key) + 1) for key in keys]
    digits = len(str(view.query_ranges[-1].start))
    queries = [
        f"{cover.start:>{digits}} {_token('query', view, cover, names)}".rstrip()
        for cover in view.query_ranges
    ]
    return replace(grid, keys=keys, widths=widths, queries=queries, numbered=True)


def _head(grid: Grid, screen: Screen) -> Text:
    line = Text(_left(grid.corner, grid.label_width), style="dim")
    for key, width in zip(grid.keys, grid.widths, strict=True):
        line.append(_right(key, width))
    if grid.writing.sums:
        line.append(_right(screen.sign("Σ"), grid.sum_width), "dim")
    return line


def _lines(view: WeightsView, grid: Grid, screen: Screen) -> Iterator[Text]:
    for row, query in enumerate(grid.queries):
        line = Text(_left(query, grid.label_width))
        for weight, hidden, width in zip(
            view.cells[row].tolist(), view.hidden[row].tolist(), grid.widths, strict=True
        ):
            if hidden:
                line.append(_right(screen.sign("·"), width), "dim")
            elif math.isnan(weight):
                line.append(_right("NaN"[: width - 1], width), ERROR)
            else:
                line.append(
                    _right(grid.writing(weight), width), weight_style(weight, screen.shades)
                )
        if grid.writing.sums:
            line.append(" " * (grid.sum_width - grid.sums[row].cell_len)).append(grid.sums[row])
        yield line


def _key_list(view: WeightsView, names: Names, width: int) -> Text:
    """Which token each key index stands for."""
    named = [f"{cover.start} {_token('key', view, cover, names)}" for cover in view.key_ranges]
    words = Text(f"keys  {'  '.join(named)}", style="dim")
    return Text("\n").join(words.wrap(names.screen.console, max(width, LEAST_LIST)))


def _name(axis: str, view: WeightsView, cover: range, names: Names, most: int) -> str:
    return names.along(axis, view.batch, cover.start, most)


def _token(axis: str, view: WeightsView, cover: range, names: Names) -> str:
    """The token alone, where its index stands before it; empty where there are no tokens."""
    return names.token(axis, view.batch, cover.start, LONGEST_TOKEN)


def _left(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def _right(text: str, width: int) -> str:
    return " " * (width - cell_len(text)) + text
