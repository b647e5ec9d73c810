"""The head table: means over each head's rows, and how alike the heads are."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from attn_cli.core.results import HeadRow, RunResult
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.numbers import entropy, number, percent
from attn_cli.render.terminal.table import Column, Layout, table


def heads(result: RunResult, screen: Screen, *, bits: bool) -> Text:
    """One line a head: means over its rows that are not empty; entropy in nats or bits."""
    full = _columns(result, screen, bits=bits, short=False)
    short = _columns(result, screen, bits=bits, short=True)
    narrow = [column for column in short if column.title not in ("distance", "on key 0")]
    return table(
        [Layout(full, 3), Layout(full, 2), Layout(short, 2), Layout(narrow, 2), Layout(narrow, 1)],
        screen,
    )


def _columns(result: RunResult, screen: Screen, *, bits: bool, short: bool) -> Sequence[Column]:
    shown = result.heads

    def figure(title: str, name: str, digits: int) -> Column:
        return Column(title, [number(head.means[name], digits, screen) for head in shown])

    unit = "bit" if bits else "nat"
    shares = [percent(head.means["normalized_entropy"], screen) for head in shown]
    columns = [
        Column("means", [_name(head, result) for head in shown], "left"),
        Column(f"entropy/{unit}", [entropy(head.means, screen, bits=bits) for head in shown]),
        Column("of max" if short else "of maximum", shares),
        figure("eff. keys" if short else "effective keys", "effective_keys", 2),
        figure("top weight" if short else "largest weight", "max_weight", 3),
        figure("distance" if short else "mean distance", "mean_distance", 1),
        figure("on key 0", "first_key_weight", 3),
    ]
    if result.settings.heads > 1:
        cosines = [number(head.mean_cosine, 3, screen) for head in shown]
        columns.append(Column("cosine" if short else "cosine to other heads", cosines))
    if any(head.empty_rows for head in shown):
        empty = [Text(str(head.empty_rows)) for head in shown]
        columns.append(Column("empty" if short else "empty rows", empty))
    return [column for column in columns if not column.says_nothing(screen.sign("–"))]


def _name(head: HeadRow, result: RunResult) -> Text:
    return Text(
        f"item {head.batch}, head {head.head}" if result.input.batch > 1 else f"head {head.head}"
    )
