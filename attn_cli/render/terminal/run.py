"""The screen of `attn run`: its parts, in the order in which attention is computed."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rich.text import Text

from attn_cli.core.results import RunResult
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.findings import findings
from attn_cli.render.terminal.header import header
from attn_cli.render.terminal.heads import heads
from attn_cli.render.terminal.names import Names, names
from attn_cli.render.terminal.rows import rows
from attn_cli.render.terminal.shapes import shapes
from attn_cli.render.terminal.spread import spread
from attn_cli.render.terminal.values import values
from attn_cli.render.terminal.weights import weights

PARTS = ("shapes", "weights", "rows", "heads", "spread", "values", "findings")  # as they stand


def run_screen(
    result: RunResult, screen: Screen, *, parts: Collection[str], bits: bool = False
) -> str:
    """The whole screen as text. `parts` are of PARTS; `bits` shows entropy in bits, not nats."""
    return screen.render([header(result, screen), *drawn(result, screen, parts=parts, bits=bits)])


def drawn(
    result: RunResult, screen: Screen, *, parts: Collection[str], bits: bool
) -> Iterator[Text]:
    """The parts one after the other, an empty line before each that has something to show."""
    named = names(result, screen)
    for part in PARTS:
        if part in parts:
            blocks = list(_part(part, result, named, bits=bits))
            yield from [Text(), *blocks] if blocks else []


def _part(part: str, result: RunResult, named: Names, *, bits: bool) -> Iterator[Text]:
    screen = named.screen
    if part == "shapes":
        yield shapes(result.shapes, screen)
    elif part == "weights":
        yield from weights(result, named)
    elif part == "rows" and result.shown_rows:
        yield from rows(result, named, bits=bits)
    elif part == "heads" and result.rows_total > len(result.heads):
        yield from heads(result, screen, bits=bits)
    elif part == "spread":
        yield from spread(result, named, bits=bits)
    elif part == "findings":
        yield from findings(result.findings, result.fine, screen)
    elif part == "values":
        yield from values(result, named)
