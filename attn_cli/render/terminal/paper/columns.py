"""Columns of decimals, aligned at the point, and tables that break into bands where they must."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from rich.text import Text

from attn_cli.core.decimals import text
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.numbers import ERROR
from attn_cli.render.terminal.table import Column, Layout, table

GAP = 2
Cell = Decimal | tuple[Decimal, str] | Text | None  # a number, one with its style, words, nothing


def column(title: str, cells: Sequence[Cell], screen: Screen) -> Column:
    """A column of numbers with their points one below the other; words stand to the right."""
    shown = [_shown(cell, screen) for cell in cells]
    tails = [
        _tail(words.plain) if _is_number(cell) else 0
        for cell, words in zip(cells, shown, strict=True)
    ]
    for cell, words, tail in zip(cells, shown, tails, strict=True):
        if _is_number(cell):
            words.append(" " * (max(tails) - tail))
    return Column(screen.sign(title), shown)


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, Decimal | tuple)


def _shown(cell: Cell, screen: Screen) -> Text:
    if isinstance(cell, tuple):
        return _number(*cell, screen)
    if isinstance(cell, Decimal):
        return _number(cell, "", screen)
    return Text() if cell is None else cell


def _number(value: Decimal, style: str, screen: Screen) -> Text:
    return Text(plain(value, screen), style=style if value.is_finite() else ERROR)


def plain(value: Decimal, screen: Screen) -> str:
    """A number as it is written, infinity by its sign."""
    if value.is_infinite():
        return screen.sign("∞" if value > 0 else "−∞")
    return text(value)


def _tail(plain: str) -> int:
    """How many characters of a number stand right of its whole part."""
    _, dot, rest = plain.partition(".")
    if dot:
        return len(dot + rest)
    mantissa, exponent, power = plain.partition("e")
    return len(exponent + power) if mantissa.lstrip("-").isdigit() else 0


def fits(columns: Sequence[Column], screen: Screen) -> bool:
    """Whether the columns stand side by side in the width that the screen is arranged for."""
    return Layout(columns, GAP).width <= screen.width


def bands(label: Column, columns: Sequence[Column], screen: Screen) -> Iterator[Text]:
    """The columns as one table, or broken evenly into as few as fit one below the other.

    An empty line stands between bands of more than one row.
    """
    for count in range(1, len(columns) + 1):
        size = -(-len(columns) // count)
        parts = [columns[start : start + size] for start in range(0, len(columns), size)]
        if all(fits([label, *part], screen) for part in parts):
            break
    for place, part in enumerate(parts):
        if place and len(label.cells) > 1:
            yield Text()
        yield trimmed(table([Layout([label, *part], GAP)], screen))


def trimmed(words: Text) -> Text:
    """Lines without blanks at their ends."""
    lines = words.split("\n")
    for line in lines:
        line.rstrip()
    return Text("\n").join(lines)
