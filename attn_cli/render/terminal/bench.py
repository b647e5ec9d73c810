"""The screen of `attn bench`: times and peaks by length, growth, what each engine computes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.text import Text

from attn_cli.core.memory import size
from attn_cli.core.results_bench import SPREAD, BenchResult, BenchRow
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.findings import findings
from attn_cli.render.terminal.numbers import WARN, number
from attn_cli.render.terminal.prose import counted, packed
from attn_cli.render.terminal.table import Column, Layout, table

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
MISSING = {
    "unsupported": "unsupported",
    "memory": "too large",
    "time": "too slow",
    "died": "ended",
    "failed": "failed",
    "interrupted": "interrupted",
}


def bench_screen(result: BenchResult, screen: Screen) -> str:
    """The whole screen as text."""
    blocks = [_header(result, screen), [_costs(result, screen)], [_engines(result, screen)]]
    blocks.append(list(findings(result.findings, (), screen)))
    lines = [line for block in blocks for line in (*block, Text())]
    return screen.render(lines[:-1])


def _header(result: BenchResult, screen: Screen) -> list[Text]:
    """What was measured, then on what."""
    s = result.settings
    shared = "" if s.kv_heads == s.heads else f" on {counted(s.kv_heads, 'key/value head')}"
    wide = "" if s.d_v == s.d_k else f", d_v {s.d_v}"
    device = s.device if result.device_name is None else f"{s.device} ({result.device_name})"
    facts = [
        f"{counted(s.heads, 'head')} of {s.d_k}{wide}{shared}",
        f"mask {s.mask}" if s.mask else "no mask",
        f"{s.dtype} on {device}",
        counted(result.threads, "thread"),
        f"median and {SPREAD} (IQR) of {counted(s.repeats, 'run')} in turn",
        f"seed {s.seed}",
    ]
    title = screen.text("bench", "bold")
    said = packed([screen.text(fact) for fact in facts], screen, indent=2, first=7)
    made = [screen.text(f"{name} {number}", "dim") for name, number in result.versions.items()]
    versions = Text("  ").join([Text(), packed(made, screen, indent=2, first=2)])
    return [Text("  ").join([title, said]), versions]


def _costs(result: BenchResult, screen: Screen) -> Text:
    """One line a length and engine; the length stands before the first of its lines.

    An engine that does not do what was asked at any length is left to the findings.
    """
    never = {row.engine for row in result.rows if row.why == "unsupported"}
    never -= {row.engine for row in result.rows if row.why != "unsupported"}
    rows = [row for row in result.rows if row.engine not in never]
    columns = [
        Column("length", [_length(rows, at, screen) for at in range(len(rows))]),
        Column("engine", [screen.text(row.engine) for row in rows], "left"),
        Column("median", [_median(row, screen) for row in rows]),
        Column("IQR", [_spread(row, screen) for row in rows]),
        Column(screen.sign("×") + " sdpa", [_ratio(row, screen) for row in rows]),
        Column("peak memory", [_peak(row, screen) for row in rows]),
    ]
    return table([Layout(columns, 3), Layout(columns, 1)], screen)


def _length(rows: Sequence[BenchRow], at: int, screen: Screen) -> Text:
    new = at == 0 or rows[at - 1].length != rows[at].length
    return screen.text(f"{rows[at].length:,}" if new else "", "bold")


def _median(row: BenchRow, screen: Screen) -> Text:
    if row.why is not None and not row.runs_s:
        return screen.text(MISSING[row.why], WARN)
    return screen.text(duration(row.median_s, row.median_s))


def _spread(row: BenchRow, screen: Screen) -> Text:
    if math.isnan(row.spread_s):
        return number(math.nan, 0, screen)
    return screen.text(duration(row.spread_s, row.median_s))


def _ratio(row: BenchRow, screen: Screen) -> Text:
    digits = next((2 - place for place in (0, 1) if not row.ratio >= 10 ** (place + 1)), 0)
    return number(row.ratio, digits, screen)


def _peak(row: BenchRow, screen: Screen) -> Text:
    if row.peak_bytes is None:
        return number(math.nan, 0, screen)
    return screen.text(size(row.peak_bytes))


def duration(seconds: float, beside: float) -> str:
    """Seconds in the unit that `beside` is read in, with as many digits as make three of it.

    >>> duration(0.0123456, 0.0123456), duration(0.0004, 0.0123)
    ('12.3 ms', '0.4 ms')
    """
    factor, unit = next((u for u in UNITS if beside >= u[0]), UNITS[-1])
    digits = max(0, 2 - math.floor(math.log10(beside / factor))) if beside > 0 else 0
    return f"{seconds / factor:,.{digits}f} {unit}"


def _engines(result: BenchResult, screen: Screen) -> Text:
    """One line an engine: what it computes, and how its costs grow."""
    names = result.settings.engines
    words = {row.engine: row.computes for row in result.rows}
    columns = [
        Column("engine", [screen.text(name) for name in names], "left"),
        Column("computes", [screen.text(words[name]) for name in names], "left"),
        Column("time grows as", list(_exponents(result, "time", screen)), "left"),
        Column("memory grows as", list(_exponents(result, "memory", screen)), "left"),
    ]
    return table([Layout(columns, 3), Layout(columns, 1)], screen)


def _exponents(result: BenchResult, quantity: str, screen: Screen) -> Iterator[Text]:
    for growth in result.growth:
        if growth.quantity == quantity:
            if math.isnan(growth.exponent):
                yield number(math.nan, 0, screen)
            else:
                line = screen.text(f"n^{growth.exponent:.2f}")
                yield line.append(f" ({growth.points} lengths)", "dim")
