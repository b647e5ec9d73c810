"""One head's weights as a heat map: a cell a block, for what is too long for a table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from attn_cli.core.results import WeightsView
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.names import Names
from attn_cli.render.terminal.numbers import ERROR
from attn_cli.render.terminal.prose import counted, packed
from attn_cli.render.terminal.shade import BLOCKS, block_floors, block_step

CORNER = "query ╲ key"
LONGEST_TOKEN = 12


@dataclass(frozen=True, slots=True)
class Shading:
    """How a block's mean weight is drawn: relative to `largest`, in `across` columns a cell."""

    largest: float
    across: int
    screen: Screen

    def cell(self, weight: float, hidden: bool) -> Text:
        """Blank where every key is hidden, a quiet dot below the faintest shade, ! for NaN."""
        if hidden:
            return Text(" " * self.across)
        if math.isnan(weight):
            return Text("!" * self.across, style=ERROR)
        styles = self.screen.shades
        step = block_step(weight, self.largest, len(styles or BLOCKS))
        if step == 0:
            return Text(self.screen.sign("·") * self.across, style="dim")
        if styles:
            return Text(" " * self.across, style=styles[step - 1])
        return Text(self.screen.sign(BLOCKS[step - 1]) * self.across)


def block_map(view: WeightsView, largest: float, names: Names) -> Text:
    """Queries down, keys across; `largest` is the mean weight that has the full shade."""
    screen = names.screen
    labels = _labels(view, names)
    width = max(map(cell_len, [*labels, screen.sign(CORNER)])) + 1
    across = 2 if screen.fits(width + 2 * len(view.key_ranges)) else 1
    shading = Shading(largest, across, screen)
    lines = [_axis(view, width, across, screen)]
    for label, cells, hidden in zip(labels, view.cells, view.hidden, strict=True):
        line = Text.assemble((f"{' ' * (width - 1 - cell_len(label))}{label} ", "dim"))
        seen = np.flatnonzero(~hidden)
        end = int(seen[-1]) + 1 if seen.size else 0  # nothing is drawn behind the last one
        for weight, blank in zip(cells[:end].tolist(), hidden[:end].tolist(), strict=True):
            line.append_text(shading.cell(weight, blank))
        lines.append(line)
    return Text("\n").join(lines)


def block_sizes(view: WeightsView) -> str:
    """How many weights a cell stands for, to say beside the title."""
    queries, keys = len(view.query_ranges[0]), len(view.key_ranges[0])
    if not view.blocks:
        return ""
    sample = f", {view.looked_at} of the queries looked at" if view.looked_at else ""
    return f"  a cell is {counted(queries, 'query', 'queries')} × {counted(keys, 'key')}{sample}"


def largest_block(views: Sequence[WeightsView]) -> float:
    """The largest mean weight of a block, so that one legend serves every head."""
    drawn = [np.isfinite(view.cells) & ~view.hidden for view in views]
    return max(
        float(view.cells.max(where=there, initial=0.0))
        for view, there in zip(views, drawn, strict=True)
    )


def legend(views: Sequence[WeightsView], screen: Screen) -> Text:
    """What the shades mean."""
    largest = largest_block(views)
    shading = Shading(largest, 2, screen)
    least = screen.sign("≥")
    parts = [
        Text.assemble(shading.cell(floor * 1.0001, hidden=False), (f" {least} {floor:.2g}", "dim"))
        for floor in block_floors(largest)
    ]
    parts += [screen.text("·· less", "dim"), screen.text("blank: hidden", "dim")]
    if any(np.isnan(view.cells).any() for view in views):
        parts.append(screen.text("!! NaN", ERROR))
    title = screen.text("mean weight of a cell  ", "dim")
    return Text.assemble(title, packed(parts, screen, indent=2, first=title.cell_len))


def _labels(view: WeightsView, names: Names) -> list[str]:
    """The token of a single query, the range of several."""
    dash = names.screen.sign("–")
    return [
        names.along("query", view.batch, cover.start, LONGEST_TOKEN)
        if len(cover) == 1
        else f"{cover.start}{dash}{cover.stop - 1}"
        for cover in view.query_ranges
    ]


def _axis(view: WeightsView, width: int, across: int, screen: Screen) -> Text:
    """The first key of some cells, as many as there is room for."""
    corner = screen.sign(CORNER)
    line = f"{' ' * (width - 1 - len(corner))}{corner} "
    for column, start in _ticks(view, across):
        line += " " * (width + column - len(line)) + str(start)
    return Text(line, style="dim")


def _ticks(view: WeightsView, across: int) -> Iterator[tuple[int, int]]:
    """Columns and the key each starts with, at least two spaces apart."""
    free = 0
    for index, cover in enumerate(view.key_ranges):
        if index * across >= free:
            yield index * across, cover.start
            free = index * across + len(str(cover.start)) + 2
