"""The screen of `attn check numerics`: the hunt, the saturation, the gradients, the verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.text import Text

from attn_cli.core.findings import Finding
from attn_cli.core.results_numerics import (
    GradientCount,
    Measured,
    NumericsResult,
    PrecisionFigures,
    Saturation,
    ScaleFigures,
)
from attn_cli.render.terminal.check_numerics_hunt import hunt_block
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.findings import FINE, findings
from attn_cli.render.terminal.numbers import ERROR, NAN, WARN
from attn_cli.render.terminal.prose import counted, hanging, packed
from attn_cli.render.terminal.table import Column, Layout, table


def numerics_screen(result: NumericsResult, screen: Screen) -> str:
    """The whole screen as text; the verdict is its last line."""
    lines = [_header(result, screen)]
    several = len(result.hunts) > 1
    layers = zip(result.hunts, result.saturations, result.gradients, strict=True)
    for hunt, figures, back in layers:
        if hunt.layer in result.shown:
            lines += [Text(), screen.text(f"layer {hunt.layer}", "bold")] if several else []
            lines += [Text(), *hunt_block(hunt, back, screen)]
            lines += [Text(), _spread_table(figures, screen)]
            lines += [Text(), _scale_table(figures, screen)]
            lines += [Text(), _precision_table(figures, screen), *_limits(figures, screen)]
            lines += [Text(), _gradient_table(back.counts, result.dtype, screen)]
            own = [one for one in result.findings if several and one.where.layer == hunt.layer]
            lines += [Text(), *findings(own, (), screen)] if own else []
    lines += [Text(), *findings(_of_all(result), (), screen), *_verdict(result, screen)]
    return screen.render(lines)


def _of_all(result: NumericsResult) -> list[Finding]:
    """What is said of the whole, and of layers that are not shown what is odd about them."""
    if len(result.hunts) == 1:
        return list(result.findings)
    return [
        replace(one, message=f"layer {one.where.layer}: {one.message}")
        if one.where.layer is not None
        else one
        for one in result.findings
        if one.where.layer is None
        or (one.where.layer not in result.shown and one.severity != "note")
    ]


def _header(result: NumericsResult, screen: Screen) -> Text:
    what, settings = result.input, result.settings
    title = screen.text("standard input" if what.source == "-" else what.source, "bold")
    facts: list[str] = [what.kind] if what.kind == "q, k, v" else []
    facts += [f"batch {what.batch}"] if what.batch > 1 else []
    noun = "query" if what.kind == "q, k, v" else "token" if what.tokens else "vector"
    facts.append(counted(what.queries, noun, "queries" if noun == "query" else ""))
    facts += [counted(what.keys, "key")] if noun == "query" or what.context else []
    shared = settings.kv_heads != settings.heads
    on = f" on {counted(settings.kv_heads, 'key/value head')}" if shared else ""
    facts += [f"{counted(settings.heads, 'head')} of {what.d_k}{on}"]
    facts += [f"mask {settings.mask}"] if settings.mask else []
    facts += [f"scale {settings.scale:.6g}"] if not _usual(settings.scale, what.d_k) else []
    facts += [f"softcap {settings.softcap:g}"] if settings.softcap is not None else []
    facts += [f"held in {what.precision}"] if what.precision != result.dtype else []
    facts += [f"looked at in {result.dtype}"]
    words = packed([screen.text(f) for f in facts], screen, indent=2, first=title.cell_len + 2)
    return Text("  ").join([title, words])


def _usual(scale: float, d_k: int) -> bool:
    return math.isclose(scale, d_k**-0.5)


def _spread_table(figures: Saturation, screen: Screen) -> Text:
    before, after = figures.spreads
    spreads = [before] if before == replace(after, stage=before.stage) else [before, after]
    plus = screen.sign("±")
    columns = [
        Column("", [screen.text(one.stage, "bold") for one in spreads], "left"),
        Column("mean", [_measured(one.mean, plus) for one in spreads]),
        Column("deviation", [_measured(one.deviation, plus) for one in spreads]),
        Column("unit variance", [Text(_short(one.unit)) for one in spreads]),
        Column("these if independent", [Text(_short(one.vectors)) for one in spreads]),
    ]
    return table([Layout(columns, 3), Layout(columns, 2)], screen)


def _scale_table(figures: Saturation, screen: Screen) -> Text:
    rows, plus = figures.scales, screen.sign("±")
    words = counted(rows[0].rows, "row")
    columns = [
        Column(f"{words} with a choice", [_scale(one, screen) for one in rows], "left"),
        Column("one key > 0.99", [_share(one.saturated, screen) for one in rows]),
        Column("largest weight", [_measured(one.largest_weight, plus) for one in rows]),
        Column("effective keys", [_measured(one.effective_keys, plus) for one in rows]),
        Column("|∂out/∂q| mean", [Text(_short(one.gradient_mean)) for one in rows]),
        Column("median", [Text(_short(one.gradient_median)) for one in rows]),
    ]
    columns = [_spelled(column, screen) for column in columns]
    short = [columns[0], columns[1], *columns[4:]]
    return table([Layout(columns, 3), Layout(columns, 2), Layout(short, 2)], screen)


def _scale(one: ScaleFigures | PrecisionFigures, screen: Screen) -> Text:
    return screen.text(one.label, "bold" if one.given else "")


def _spelled(column: Column, screen: Screen) -> Column:
    return Column(screen.text(column.title).plain, column.cells, column.justify)


def _largest(one: PrecisionFigures, screen: Screen) -> Text:
    """The largest finite score; a dash where there is none."""
    finite = one.pairs > one.nonfinite
    return Text(_short(one.largest)) if finite else screen.text("–", "dim")


def _precision_table(figures: Saturation, screen: Screen) -> Text:
    rows = figures.precisions
    columns = [
        Column("", [_scale(one, screen) for one in rows], "left"),
        Column("precision", [Text(one.dtype) for one in rows], "left"),
        Column("max |q·k|", [_largest(one, screen) for one in rows]),
        Column("limit", [Text(_power(one.limit)) for one in rows]),
        Column("inf/NaN", [_bad(one.nonfinite) for one in rows]),
        Column("> 0.99", [_of(one.saturated, one.rows, screen) for one in rows]),
        Column("exp = 0", [_of(one.vanished, one.pairs, screen) for one in rows]),
        Column("exp inf", [_bad(one.naive_inf, WARN) for one in rows]),
        Column("naive", [_bad(one.naive_lost, WARN) for one in rows]),
        Column("stable", [_bad(one.stable_lost) for one in rows]),
    ]
    columns = [_spelled(column, screen) for column in columns]
    tight = [column for column in columns if column.title != "limit"]
    return table([Layout(columns, 3), Layout(columns, 2), Layout(tight, 2)], screen)


def _limits(figures: Saturation, screen: Screen) -> Iterator[Text]:
    """What the columns mean, and where each precision's exponentials end."""
    kinds = list({one.dtype: one for one in figures.precisions}.values())
    below = ", ".join(f"{one.vanishes_below:.2f} in {one.dtype}" for one in kinds)
    above = ", ".join(f"{one.naive_above:.2f} in {one.dtype}" for one in kinds)
    for title, words in (
        ("exp = 0", f"exp(score − max) that underflow: below {below}"),
        ("exp inf", f"exp(score) that overflow: above {above}"),
        ("naive", "rows without a sum when the maximum is not subtracted; stable: when it is"),
    ):
        line = Text.assemble((f"{title:<9}", "bold dim"), screen.text(words, "dim"))
        yield hanging(line, screen, indent=9)


def _power(value: float) -> str:
    """65504 in full, 3.4e38 short."""
    return f"{value:.0f}" if value < 1e6 else f"{value:.1e}".replace("e+", "e")


def _gradient_table(counts: Sequence[GradientCount], dtype: str, screen: Screen) -> Text:
    same = dtype == "float64"
    columns = [
        Column("gradient of", [screen.text(one.name, "bold") for one in counts], "left"),
        Column("numbers", [Text(f"{one.total:,}") for one in counts]),
        Column(f"norm, {dtype}", [_norm(one.norm, screen) for one in counts]),
    ]
    if not same:
        columns += [
            Column("norm, float64", [_norm(one.norm64, screen) for one in counts]),
            Column("0 here only", [_of(one.vanished, one.total, screen) for one in counts]),
        ]
    columns.append(Column("not finite", [_bad(one.nan + one.inf) for one in counts]))
    return table([Layout(columns, 3), Layout(columns, 2)], screen)


def _norm(value: float, screen: Screen) -> Text:
    if math.isnan(value):
        return Text(NAN, style=ERROR)
    if math.isinf(value):
        return Text(screen.sign("∞"), style=ERROR)
    return Text(_short(value))


def _verdict(result: NumericsResult, screen: Screen) -> Iterator[Text]:
    """What decides the exit code, and how it was decided."""
    limits = result.thresholds
    rule = f"rows above {limits.max_weight}: at most {100 * limits.saturated:.4g}% (--saturated)"
    rule += f", allowed: {', '.join(limits.allowed)}" if limits.allowed else ""
    if result.failed:
        head = screen.text(f"{screen.sign('✗')} not sound: {', '.join(result.failed)}", ERROR)
    else:
        head = screen.text(f"{screen.sign('✓')} sound: nothing fails", FINE)
    line = Text("  ").join([head, screen.text(rule, "dim")])
    yield hanging(line, screen, indent=2)


def _measured(measured: Measured, plus: str) -> Text:
    """A number to the digits that its error leaves: 8.01 ± 0.05."""
    if math.isnan(measured.value):
        return Text(NAN, style="dim")
    if not math.isfinite(measured.error) or not measured.error:
        return Text(_short(measured.value))
    digits = min(max(1 - math.floor(math.log10(measured.error)), 0), 6)
    big = abs(measured.value) >= 1e7
    if big:
        return Text(f"{measured.value:.3g} {plus} {measured.error:.1g}")
    return Text(f"{measured.value:z.{digits}f} {plus} {measured.error:.{digits}f}")


def _share(measured: Measured, screen: Screen) -> Text:
    if math.isnan(measured.value):
        return Text(screen.sign("–"), style="dim")
    error = f"{screen.sign('±')} {100 * measured.error:.1f}"
    return Text(f"{100 * measured.value:.1f}% {error}")


def _short(value: float) -> str:
    """Four digits, and whole numbers up to a million in full."""
    if math.isnan(value):
        return NAN
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e6 else f"{value:.4g}"


def _of(part: int, whole: int, screen: Screen) -> Text:
    if not whole:
        return Text(screen.sign("–"), style="dim")
    return Text(f"{part / whole:.1%}")


def _bad(part: int, style: str = ERROR) -> Text:
    """A count that should be 0."""
    return Text(f"{part:,}", style=style) if part else Text("0", style="dim")
