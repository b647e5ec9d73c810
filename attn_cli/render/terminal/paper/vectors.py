"""Vectors: rows of numbers under their features' indices, and a query turned pair by pair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from rich.text import Text

from attn_cli.core.explanation import Step, Term
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.paper.columns import bands, column
from attn_cli.render.terminal.prose import counted
from attn_cli.render.terminal.table import Column

MOST = 64  # features of a vector on the screen


@dataclass(frozen=True, slots=True)
class Row:
    """One vector with what it is called."""

    label: str
    numbers: Sequence[Decimal]
    style: str = ""


def vectors(rows: Sequence[Row], screen: Screen, *, most: int = MOST) -> Iterator[Text]:
    """The rows, a column each feature; of long ones the beginning."""
    width = len(rows[0].numbers)
    labels = [screen.text(row.label, "dim") for row in rows]
    columns = [
        column(str(index), [(row.numbers[index], row.style) for row in rows], screen)
        for index in range(min(width, most))
    ]
    yield from bands(Column("feature", labels, "left"), columns, screen)
    if width > most:
        yield screen.text(f"{counted(width - most, 'more feature')}: --json has them", "dim")


def turned(steps: Mapping[str, Step], screen: Screen) -> Iterator[Text]:
    """Every pair that is worked out: its angle, cosine and sine, and both features turned."""
    rotated = {line.index: line for line in steps["q_rotated"].lines}
    pairs = sorted({_features(line.terms) for line in rotated.values() if line.terms})
    firsts = [rotated[first] for first, _ in pairs]
    seconds = [rotated[second] for _, second in pairs]
    columns = [
        Column("features", [Text(f"{first}, {second}", "dim") for first, second in pairs]),
        *(column(name, list(steps[name].results), screen) for name in ("angle", "cos", "sin")),
        column("first", [line.terms[0].a for line in firsts], screen),
        column("second", [line.terms[1].a for line in firsts], screen),
        column("turned first", [(line.result, "bold") for line in firsts], screen),
        column("second", [(line.result, "bold") for line in seconds], screen),
    ]
    labels = [Text(line.label, "dim") for line in steps["angle"].lines]
    yield from bands(Column("pair", labels, "left"), columns, screen)


def _features(terms: Sequence[Term]) -> tuple[int, int]:
    first, second = (term.at for term in terms)
    assert first is not None
    assert second is not None
    return first, second
