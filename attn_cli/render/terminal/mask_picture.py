"""The picture of a mask: queries down, keys across, a square where a query sees a key."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.style import Style
from rich.text import Text

from attn_cli.core.results_mask import MaskItem, MaskResult
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.numbers import WARN
from attn_cli.render.terminal.prose import counted, packed
from attn_cli.render.terminal.shade import BLOCKS

SEEN, HIDDEN = "■", "·"
SEES = "sees"  # the heading of the last column
MARK = " !"  # behind a row that sees nothing
IN_ASCII = "#"  # for screens without the square
CORNERS = ("{rows} ╲ key", "{rows}")
STEPS = (1, 2, 5)  # times powers of ten: the keys that are numbered
VIVID = "bold #3f8cff"


@dataclass(frozen=True, slots=True)
class Drawing:
    """One picture, laid out: `across` columns a cell, the labels of its rows and what they see."""

    labels: Sequence[str]
    corner: str
    sees: Sequence[Text]
    across: int

    @property
    def left(self) -> int:
        return max(len(self.corner), *map(len, self.labels)) + 1

    def width(self, cells: int) -> int:
        right = max((text.cell_len for text in self.sees), default=0)
        return self.left + cells * self.across + (2 + right if right else 0)


def mask_picture(result: MaskResult, items: Sequence[MaskItem], screen: Screen) -> Text:
    """The picture of one item and head; of several with one query each, a row for each of them."""
    shares = np.concatenate([item.shares for item in items])
    drawing = _fitting(result, items, shares.shape[1], screen)
    lines = [_axis(result, drawing, screen)]
    for place, row in enumerate(shares.tolist()):
        line = Text.assemble((f"{drawing.labels[place]:>{drawing.left - 1}} ", "dim"))
        for share in row:
            line.append_text(_cell(share, drawing.across, result.blocks, screen))
        if drawing.sees:
            line.append("  ").append_text(drawing.sees[place])
        elif not result.blocks or row[-1] == 0:  # a shaded cell is made of spaces
            line.rstrip()
        lines.append(line)
    return Text("\n").join(lines)


def legend(result: MaskResult, screen: Screen) -> Text:
    """What the cells stand for, and the polarity."""
    told = _polarity(result)
    line = Text()
    if not result.blocks:
        line.append_text(_cell(1.0, 2, False, screen)).append(f"may attend{told[0]}   ", "dim")
        return line.append_text(_cell(0.0, 2, False, screen)).append(f"hidden{told[1]}", "dim")
    queries, keys = len(result.query_ranges[0]), len(result.key_ranges[0])
    sizes = f"{counted(queries, 'query', 'queries')} × {counted(keys, 'key')}"
    parts = [screen.text(f"a cell is {sizes}", "dim")]
    for share, words in ((1.0, "all visible"), (0.5, "half"), (0.05, "a few"), (0.0, "none")):
        cell = _cell(share, 2 if share else 1, True, screen)
        parts.append(Text.assemble(cell, (f" {words}", "dim")))
    return packed(parts, screen, indent=2)


def _polarity(result: MaskResult) -> tuple[str, str]:
    """What is written where a query may attend, and where it may not."""
    kind = "bool" if result.file is None else result.file.kind
    if kind == "additive":
        return "", ""
    words = (" (True)", " (False)") if kind == "bool" else (" (1)", " (0)")
    hidden = result.file is not None and result.file.polarity == "hidden"
    return words[::-1] if hidden else words


def per_item_rows(result: MaskResult) -> bool:
    """Whether the rows of the picture are items and heads, which have one query each."""
    return result.queries == 1 and len(result.items) > 1


def _fitting(result: MaskResult, items: Sequence[MaskItem], cells: int, screen: Screen) -> Drawing:
    """The richest drawing that the screen holds."""
    sees = _sees(result, items, screen)
    for across, column in ((2, sees), (2, []), (1, sees), (1, [])):
        for corner in CORNERS:
            drawing = _drawing(result, items, corner, column, across, screen)
            if screen.fits(drawing.width(cells)):
                return drawing
    return drawing


def _drawing(
    result: MaskResult,
    items: Sequence[MaskItem],
    corner: str,
    sees: Sequence[Text],
    across: int,
    screen: Screen,
) -> Drawing:
    if per_item_rows(result):
        heads = result.heads > 1
        labels = [f"{item.batch}, {item.head}" if heads else str(item.batch) for item in items]
        words = screen.sign(corner.format(rows="item, head" if heads else "item"))
        return Drawing(labels, words, sees, across)
    starts = [_range(rows, screen) for rows in result.query_ranges]
    rows = "query"
    if result.q_offset:
        offset = result.q_offset
        places = [
            _range(range(r.start + offset, r.stop + offset), screen) for r in result.query_ranges
        ]
        wide = max(map(len, places)), max(map(len, starts))
        starts = [
            f"{q:>{wide[1]}} at {at:>{wide[0]}}" for q, at in zip(starts, places, strict=True)
        ]
        rows = "query at position"
    return Drawing(starts, screen.sign(corner.format(rows=rows)), sees, across)


def _range(rows: range, screen: Screen) -> str:
    first, last = rows.start, rows.stop - 1
    return _sign(first) if first == last else f"{_sign(first)}{screen.sign('–')}{_sign(last)}"


def _sign(position: int) -> str:
    return str(position)


def _sees(result: MaskResult, items: Sequence[MaskItem], screen: Screen) -> list[Text]:
    """How many keys the row sees; of rows drawn together, the least and the most."""
    told = []
    for item in items:
        bounds = np.searchsorted(item.rows, [rows.start for rows in result.query_ranges])
        for part in np.split(item.keys, bounds[1:]):
            least, most = int(part.min()), int(part.max())
            words = f"{least:,}" if least == most else f"{least:,}{screen.sign('–')}{most:,}"
            told.append(Text(words + MARK, WARN) if least == 0 else Text(words, "dim"))
    width = max(len(SEES), *(len(text.plain.removesuffix(MARK)) for text in told))
    for text in told:
        text.pad_left(width - len(text.plain.removesuffix(MARK)))
    return told


def _cell(share: float, across: int, blocks: bool, screen: Screen) -> Text:
    """A square with a gap, or for a block a shade without one."""
    if share == 0:
        return Text(screen.sign(HIDDEN).ljust(across), style="dim")
    if not blocks:
        return Text(_square(screen).ljust(across), style=VIVID if screen.shades else "")
    styles: Sequence[Style] = screen.shades
    if styles:
        step = len(styles) - 1 if share == 1 else math.floor(share * (len(styles) - 1))
        return Text(" " * across, style=styles[step])
    step = 3 if share == 1 else min(2, math.floor(share * 3))
    return Text(screen.sign(BLOCKS[step]) * across)


def _square(screen: Screen) -> str:
    try:
        SEEN.encode(screen.encoding)
    except UnicodeEncodeError:
        return IN_ASCII
    return SEEN


def _axis(result: MaskResult, drawing: Drawing, screen: Screen) -> Text:
    """The corner, the numbers of some keys as many as there is room for, and the last heading."""
    line = drawing.corner.rjust(drawing.left - 1) + " "
    for column, start in _ticks(result.key_ranges, drawing.across):
        line += " " * (drawing.left + column - len(line)) + str(start)
    if drawing.sees:
        right = drawing.left + len(result.key_ranges) * drawing.across + 2
        width = len(drawing.sees[0].plain.removesuffix(MARK))
        line = line.ljust(right) + SEES.rjust(width)
    return Text(line.rstrip(), style="dim")


def _ticks(ranges: Sequence[range], across: int) -> Iterator[tuple[int, int]]:
    """Columns and the key that each begins with, at round distances and two spaces apart."""
    widest = len(str(ranges[-1].start))
    step = next(
        base * 10**power
        for power in range(10)
        for base in STEPS
        if base * 10**power * across > widest
    )
    for index in range(0, len(ranges), step):
        start = ranges[index].start
        if index * across + len(str(start)) <= len(ranges) * across:
            yield index * across, start
