"""The row table: how each query spreads its weight, and what it looks at most."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text

from attn_cli.core.results import Row, RunResult, TopKey
from attn_cli.render.terminal.names import Names
from attn_cli.render.terminal.numbers import ERROR, NAN, WARN, entropy, number, percent, row_sum
from attn_cli.render.terminal.prose import counted, hanging
from attn_cli.render.terminal.table import Column, Layout, table

LONGEST_TOKEN = 16
SHORT_TOKEN = 10
EMPTY = "no key"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table: a row, or where `left_out` is not 0 the rows that are not shown."""

    row: Row
    why: str = ""
    opens_head: bool = False
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Detail:
    """How much of the rows a layout shows."""

    gap: int = 2
    short: bool = False  # short titles and tokens
    keys: int = 3  # how many keys a row looks at
    position: bool = True  # mean distance and the weight on the first key
    effective: bool = True
    brief: bool = False  # why a row is shown, in a word

    @property
    def token(self) -> int:
        return SHORT_TOKEN if self.short else LONGEST_TOKEN

    @property
    def between(self) -> str:
        """What stands between two keys that a row looks at."""
        return "  " if self.keys == 3 else " "


DETAILS = (  # the richest first: what a narrow screen leaves out goes in this order
    Detail(gap=3),
    Detail(),
    Detail(gap=3, position=False),
    Detail(position=False),
    Detail(position=False, short=True),
    Detail(position=False, short=True, keys=2),
    Detail(position=False, short=True, keys=1),
    Detail(position=False, short=True, keys=1, effective=False),
    Detail(position=False, short=True, keys=0, effective=False),
    Detail(position=False, short=True, keys=0, effective=False, brief=True),
)
BRIEF = {"most focused": "focused", "most spread": "spread", "looks farthest": "far"}


def rows(result: RunResult, names: Names, *, bits: bool) -> Iterator[Text]:
    """One line a query of each head, entropy in nats or bits; what is left out, counted."""
    lines = list(_lines(result))
    yield table((_layout(lines, result, names, d, bits=bits) for d in DETAILS), names.screen)
    if len(result.shown_rows) < result.rows_total:
        words = (
            f"{len(result.shown_rows):,} of {counted(result.rows_total, 'row')}: the first, the "
            "last and the most unusual; --json or --rows all has the rest"
        )
        yield hanging(names.screen.text(words, "dim"), names.screen, indent=2)


def _lines(result: RunResult) -> Iterator[Line]:
    """The shown rows, with a line for those left out between two of one head."""
    queries = result.chosen.get("query", range(result.input.queries))
    before: Row | None = None
    for entry in result.shown_rows:
        row = entry.row
        same = before is not None and (row.batch, row.head) == (before.batch, before.head)
        if same and before is not None:
            between = bisect_left(queries, row.query) - bisect_right(queries, before.query)
            if between > 0:
                yield Line(row, left_out=between)
        yield Line(row, entry.why, opens_head=not same)
        before = row


def _layout(
    lines: Sequence[Line], result: RunResult, names: Names, detail: Detail, *, bits: bool
) -> Layout:
    screen, short = names.screen, detail.short

    def column(title: str, show: Callable[[Row], Text]) -> Column:
        return Column(title, [Text() if line.left_out else show(line.row) for line in lines])

    def statistic(title: str, show: Callable[[Row], Text]) -> Column:
        return column(title, lambda row: Text(NAN, style=ERROR) if _is_lost(row) else show(row))

    def figure(title: str, name: str, digits: int) -> Column:
        return statistic(title, lambda row: number(row.numbers[name], digits, screen))

    unit = "bit" if bits else "nat"
    columns = list(_places(lines, result, names, detail))
    columns += [
        column("sees", lambda row: Text(f"{row.numbers['visible_keys']:.0f}")),
        column(
            "Σ" if short else "Σ weights",
            lambda row: row_sum(row.numbers["sum"], result.sum_tolerance),
        ),
        statistic(f"entropy/{unit}", lambda row: entropy(row.numbers, screen, bits=bits)),
        statistic(
            "of max" if short else "of maximum",
            lambda row: percent(row.numbers["normalized_entropy"], screen),
        ),
    ]
    if detail.effective:
        columns.append(figure("eff. keys" if short else "effective keys", "effective_keys", 2))
    if detail.position:
        figures = [
            figure("mean distance", "mean_distance", 1),
            figure("on key 0", "first_key_weight", 3),
        ]
        columns += [shown for shown in figures if not shown.says_nothing(screen.sign("–"))]
    if detail.keys:
        looks = [_looks_at(line, names, detail) for line in lines]
        columns.append(Column("looks at", looks, "left"))
    if any(line.why for line in lines):
        why = [screen.text(_why(line.why, detail), "dim") for line in lines]
        columns.append(Column("why shown", why, "left"))
    return Layout(columns, detail.gap)


def _why(why: str, detail: Detail) -> str:
    for long, short in BRIEF.items() if detail.brief else ():
        why = why.replace(long, short)
    return why


def _is_lost(row: Row) -> bool:
    """Whether NaN or inf took part, so that no statistic means anything."""
    return not row.empty and math.isnan(row.numbers["sum"])


def _places(
    lines: Sequence[Line], result: RunResult, names: Names, detail: Detail
) -> Iterator[Column]:
    """Item, head and query; item and head only where they change."""
    heads = [Text(str(line.row.head) if line.opens_head else "") for line in lines]
    if result.input.batch > 1:
        items = [Text(str(line.row.batch) if line.opens_head else "") for line in lines]
        yield Column("item", items)
    yield Column("head", heads)
    queries = [_query(line, names, detail) for line in lines]
    yield Column("query", queries, "left" if result.input.tokens else "right")


def _query(line: Line, names: Names, detail: Detail) -> Text:
    if line.left_out:
        return names.screen.text(f"… {line.left_out:,} more", "dim")
    return Text(names.along("query", line.row.batch, line.row.query, detail.token))


def _looks_at(line: Line, names: Names, detail: Detail) -> Text:
    row = line.row
    if line.left_out:
        return Text()
    if row.empty:
        return names.screen.text(EMPTY, WARN)
    cell = Text()
    for place, top in enumerate(row.top[: detail.keys]):
        weight = f"{top.weight:.2f}"
        if place and weight == "0.00":
            break
        token = _key(row, top, names, detail)
        cell.append(detail.between if place else "").append(token).append(f" {weight}", "dim")
    return cell


def _key(row: Row, top: TopKey, names: Names, detail: Detail) -> str:
    if names.labels is None:
        return f"{top.key}:"  # an index beside a weight would read as two numbers
    return names.along("key", row.batch, top.key, detail.token)
