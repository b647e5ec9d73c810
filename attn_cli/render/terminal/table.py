"""Tables that never cut a number: what does not fit is left out in an order that is chosen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.text import Text

from attn_cli.render.terminal.console import Screen

Justify = Literal["left", "right"]

HEADING = "dim"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its title and its cells, numbers to the right and words to the left."""

    title: str
    cells: Sequence[Text]
    justify: Justify = "right"

    @property
    def width(self) -> int:
        return max(Text(self.title).cell_len, *(cell.cell_len for cell in self.cells), 0)

    def says_nothing(self, dash: str) -> bool:
        """Whether no cell holds more than a dash."""
        return all(cell.plain in ("", dash) for cell in self.cells)


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to arrange a table: columns, with `gap` columns of space between them."""

    columns: Sequence[Column]
    gap: int = 3

    @property
    def width(self) -> int:
        return sum(column.width for column in self.columns) + self.gap * (len(self.columns) - 1)


def narrowing(columns: Sequence[Column], titles: Sequence[str]) -> list[Layout]:
    """Layouts without the first of `titles`, then without the first two, and so on."""
    gone = [titles[:count] for count in range(1, len(titles) + 1)]
    return [Layout([c for c in columns if c.title not in without], 2) for without in gone]


def table(layouts: Iterable[Layout], screen: Screen) -> Text:
    """The first layout that fits the screen; give the richest first.

    Where none does, the last one on a terminal, and in a pipe the richest.
    """
    richest: Layout | None = None
    for layout in layouts:
        if layout.width <= screen.width:
            return _drawn(layout, screen)
        richest = richest or layout
    assert richest is not None
    return _drawn(layout if screen.cuts else richest, screen)


def _drawn(layout: Layout, screen: Screen) -> Text:
    """Headings and rows, no line longer than its text; Rich's tables pad and are slower."""
    titles = [screen.text(column.title, HEADING) for column in layout.columns]
    rows = zip(*(column.cells for column in layout.columns), strict=True)
    widths = [column.width for column in layout.columns]
    justify = [column.justify for column in layout.columns]
    return Text("\n").join(_line(cells, widths, justify, layout.gap) for cells in (titles, *rows))


def _line(
    cells: Sequence[Text], widths: Sequence[int], justify: Sequence[Justify], gap: int
) -> Text:
    line, waiting = Text(), 0  # spaces that wait for something to stand behind them
    for cell, width, side in zip(cells, widths, justify, strict=True):
        space = width - cell.cell_len
        if cell.plain:
            line.append(" " * (waiting + (space if side == "right" else 0))).append_text(cell)
            waiting = gap + (space if side == "left" else 0)
        else:
            waiting += width + gap
    return line
