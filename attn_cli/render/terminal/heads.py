"""The head table: means over each head's rows, and how alike the heads are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from rich.text import Text

from attn_cli.core.results import HeadRow, RunResult
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.numbers import ERROR, NAN, entropy, number, percent
from attn_cli.render.terminal.prose import counted, hanging
from attn_cli.render.terminal.table import Column, Layout, table

MOST = 64  # heads; a model of more has too many to look through
FIRST_TO_GO = ("distance", "on key 0")  # what a narrow screen leaves out


def heads(result: RunResult, screen: Screen, *, bits: bool) -> Iterator[Text]:
    """One line a head: means over its rows that are not empty; entropy in nats or bits.

    The first 64, and how many more there are. Nothing where no head has a row with a statistic.
    """
    more = len(result.heads) - MOST
    result = replace(result, heads=result.heads[:MOST])
    full = _columns(result, screen, bits=bits, short=False)
    short = _columns(result, screen, bits=bits, short=True)
    narrow = [column for column in short if column.title not in FIRST_TO_GO]
    layouts = [Layout(full), Layout(full, 2), Layout(short, 2), Layout(narrow, 2)]
    if len(full) > 1:
        yield table(layouts, screen)
    if len(full) > 1 and more > 0:
        words = (
            f"{counted(more, 'head')} more: --head and --item pick which to show, --json has all"
        )
        yield hanging(screen.text(words, "dim"), screen, indent=2)


def _columns(result: RunResult, screen: Screen, *, bits: bool, short: bool) -> Sequence[Column]:
    """The columns that say something; each title in full or short."""
    unit = "bit" if bits else "nat"
    length = result.input.queries

    def column(titles: tuple[str, str], show: Callable[[HeadRow], Text]) -> Column:
        cells = [
            Text(NAN, style=ERROR) if _is_lost(head, length) else show(head)
            for head in result.heads
        ]
        return Column(titles[short], cells)

    def figure(titles: tuple[str, str], name: str, digits: int) -> Column:
        return column(titles, lambda head: number(head.means[name], digits, screen))

    columns = [
        column((f"entropy/{unit}",) * 2, lambda head: entropy(head.means, screen, bits=bits)),
        column(
            ("of maximum", "of max"), lambda head: percent(head.means["normalized_entropy"], screen)
        ),
        figure(("effective keys", "eff. keys"), "effective_keys", 2),
        figure(("largest weight", "top weight"), "max_weight", 3),
        figure(("mean distance", "distance"), "mean_distance", 1),
        figure(("on key 0", "on key 0"), "first_key_weight", 3),
    ]
    if result.settings.heads > 1:
        cosine = ("cosine to other heads", "cosine")
        columns.append(column(cosine, lambda head: number(head.mean_cosine, 3, screen)))
    if any(head.empty_rows for head in result.heads):
        empty = [Text(str(head.empty_rows)) for head in result.heads]
        columns.append(Column("empty" if short else "empty rows", empty))
    dash = screen.sign("–")
    told = [column for column in columns if not column.says_nothing(dash)]
    return [Column("means", [_name(head, result) for head in result.heads], "left"), *told]


def _is_lost(head: HeadRow, length: int) -> bool:
    """Whether NaN or inf took part in a row that is not empty."""
    return head.empty_rows < length and math.isnan(head.means["sum"])


def _name(head: HeadRow, result: RunResult) -> Text:
    item = f"item {head.batch}, " if result.input.batch > 1 else ""
    return Text(f"{item}head {head.head}")
