"""Products: one vector against several, every product and their sum: q · k, x · W, weights · v."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.text import Text

from attn_cli.core.explanation import FEW, MOST, Line, Step
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.paper.columns import Cell, bands, column, fits
from attn_cli.render.terminal.table import Column

FEWEST = 3  # terms that are written before "… more", however narrow the screen
RESULT = "bold"


@dataclass(frozen=True, slots=True)
class Wording:
    """How a step's products are labelled: `a`, each line's vector, and what stands along the terms.

    `line` names a line's own vector, `at` a term's place, `corner` what the places are.
    """

    a: str
    product: str
    line: Callable[[Line], str]
    at: Callable[[int], str]
    corner: str


def products(step: Step, terms: int | None, wording: Wording, screen: Screen) -> Iterator[Text]:
    """The step's lines, those with the same terms in one table, two rows a line."""
    lines = [line for line in step.lines if line.terms]
    if terms is None and step.along == "feature" and len(lines[0].terms) > MOST:
        lines = _as_fit(lines, wording, screen)
    elif step.along == "feature":
        most = len(lines[0].terms) if terms is None else terms
        lines = [line.shortened(most) for line in lines]
    for place, (_, group) in enumerate(groupby(lines, key=_terms)):
        if place:
            yield Text()
        label, columns = _table(list(group), wording, screen)
        yield from bands(label, columns, screen)


def _terms(line: Line) -> tuple[object, ...]:
    """What lines in one table share."""
    return tuple((term.at, str(term.a)) for term in line.terms)


def _as_fit(lines: Sequence[Line], wording: Wording, screen: Screen) -> list[Line]:
    """The lines with as many of their largest terms as stand abreast."""
    for most in range(FEW, FEWEST - 1, -1):
        shortened = [line.shortened(most) for line in lines]
        tables = (_table([line], wording, screen) for line in shortened)
        if all(fits([label, *columns], screen) for label, columns in tables):
            break
    return shortened


def _table(
    lines: Sequence[Line], wording: Wording, screen: Screen
) -> tuple[Column, Sequence[Column]]:
    """The labels, and a column for each term, for the rest, for what is added and for the sum."""
    labels = [Text(screen.sign(wording.a), "dim")]
    for line in lines:
        labels += [
            Text(screen.sign(wording.line(line)), "dim"),
            Text(f"  {screen.sign(wording.product)}", "dim"),
        ]
    columns = [_term(lines, place, wording, screen) for place in range(len(lines[0].terms))]
    columns += _tail(lines, screen)
    return Column(screen.sign(wording.corner), labels, "left"), columns


def _term(lines: Sequence[Line], place: int, wording: Wording, screen: Screen) -> Column:
    first = lines[0].terms[place]
    cells: list[Cell] = [first.a]
    for line in lines:
        term = line.terms[place]
        cells += [term.b, term.product]
    assert first.at is not None
    return column(wording.at(first.at), cells, screen)


def _tail(lines: Sequence[Line], screen: Screen) -> Iterator[Column]:
    def beside_products(title: str, cells: Sequence[Cell]) -> Column:
        spread: list[Cell] = [None]
        for cell in cells:
            spread += [None, cell]
        return column(title, spread, screen)

    if (rest := lines[0].rest) is not None:
        values = [None if line.rest is None else line.rest.value for line in lines]
        yield beside_products(f"{rest.count} more", values)
    if any(line.added is not None for line in lines):
        yield beside_products("+ bias", [line.added for line in lines])
    yield beside_products("Σ", [(line.result, RESULT) for line in lines])
