"""The screen of `attn check grads`: what was compared, how far off, what is wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.text import Text

from attn_cli.core.results_grads import (
    CaseGrads,
    CaseSizes,
    GradsResult,
    InputGrads,
    Norms,
    Spot,
    Verdict,
    written,
)
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.findings import FINE, findings
from attn_cli.render.terminal.numbers import ERROR, NAN, WARN
from attn_cli.render.terminal.prose import counted, packed
from attn_cli.render.terminal.table import Column, Layout, table

MARKS: dict[Verdict, tuple[str, str]] = {
    "right": ("✓", FINE),
    "wrong": ("✗", ERROR),
    "undecided": ("!", WARN),
}


def check_grads_screen(result: GradsResult, screen: Screen) -> str:
    """The whole screen as text."""
    blocks = [[_header(result, screen)]]
    if result.input is None and not result.code:
        blocks.append([_cases(result.cases, screen)])
    else:
        blocks += [list(_inputs(case, screen)) for case in result.cases]
    blocks += [list(_norms(norms, screen)) for norms in result.norms]
    blocks.append(list(findings(result.findings, result.fine, screen)))
    lines = [line for block in blocks if block for line in (*block, Text())]
    return screen.render(lines[:-1])


def _header(result: GradsResult, screen: Screen) -> Text:
    name, facts = "the default cases", [counted(len(result.cases), "case")]
    if result.code:
        name, facts = result.subject, _sizes(result.cases[0].sizes)
    if result.input is not None:
        name = "standard input" if result.input.source == "-" else result.input.source
        facts = [] if len(result.cases) > 1 else _sizes(result.cases[0].sizes)
        mask = None if result.settings is None else result.settings.mask
        facts += [] if mask is None else [f"mask {mask}"]
    of = "its own" if result.code else f"of {result.subject}"
    facts += [f"gradients {of}", "float64", f"seed {result.seed}"]
    title = screen.text(name, "bold")
    words = packed([screen.text(f) for f in facts], screen, indent=2, first=title.cell_len + 2)
    return Text("  ").join([title, words])


def _sizes(sizes: CaseSizes) -> list[str]:
    heads = f"{counted(sizes['heads'], 'head')} of {sizes['d_k']}"
    if sizes["kv_heads"] != sizes["heads"]:
        heads += f" on {counted(sizes['kv_heads'], 'key/value head')}"
    words = [f"batch {sizes['batch']}"] if sizes["batch"] > 1 else []
    words.append(counted(sizes["queries"], "query", "queries"))
    words += [counted(sizes["keys"], "key")]
    words += [f"d_model {sizes['d_model']}"] if "d_model" in sizes else []
    words.append(heads)
    return [*words, *([f"d_v {sizes['d_v']}"] if sizes["d_v"] != sizes["d_k"] else [])]


def _cases(cases: Sequence[CaseGrads], screen: Screen) -> Text:
    """One line a case: what was moved, and the input that is furthest off for what is allowed."""
    furthest = [_furthest(case.inputs) for case in cases]
    name = Column("case", [screen.text(case.name) for case in cases], "left")
    sizes = [
        Column(axis, [Text(_size(case.sizes, key)) for case in cases])
        for axis, key in (
            ("batch", "batch"),
            ("head", "heads"),
            ("query", "queries"),
            ("key", "keys"),
            ("d_k", "d_k"),
            ("d_v", "d_v"),
        )
    ]
    moved = Column(
        "gradients of",
        [screen.text(" ".join(written(part.name) for part in case.inputs)) for case in cases],
        "left",
    )
    count = Column("numbers", [Text(f"{sum(p.checked for p in case.inputs):,}") for case in cases])
    off = Column(
        "off by", [_scientific(None if part is None else part.max_abs, screen) for part in furthest]
    )
    bounds = [None if part is None else part.worst.allowed for part in furthest]
    allowed = Column("allowed", [_scientific(bound, screen) for bound in bounds])
    mark = Column("", [_mark(case.verdict, screen) for case in cases], "left")
    return table(
        [
            Layout([name, *sizes, moved, count, off, allowed, mark], 3),
            Layout([name, *sizes, count, off, allowed, mark], 2),
            Layout([name, count, off, allowed, mark], 2),
        ],
        screen,
    )


def _furthest(parts: Sequence[InputGrads]) -> InputGrads | None:
    """The wrong one first, else the one that uses most of what it is allowed."""

    def used(part: InputGrads) -> tuple[bool, float]:
        share = part.max_abs / part.worst.allowed if part.worst.allowed else 0.0
        return part.verdict == "wrong", math.inf if math.isnan(share) else share

    return max(parts, key=used, default=None)


def _size(sizes: CaseSizes, key: str) -> str:
    if key == "heads" and sizes["kv_heads"] != sizes["heads"]:
        return f"{sizes['heads']} on {sizes['kv_heads']}"
    return f"{sizes[key]:,}"


def _inputs(case: CaseGrads, screen: Screen) -> Iterator[Text]:
    """One line an input: its axes, how many numbers were moved, how far off, and where most."""
    if case.layer is not None:
        yield Text.assemble(
            (f"layer {case.layer}", "bold"),
            ("  " + ", ".join(_sizes(case.sizes)), "dim"),
        )
    if not case.inputs:
        return
    parts = case.inputs
    name = Column("input", [screen.text(written(part.name)) for part in parts], "left")
    axes = Column("axes", [screen.text(_axes(part)) for part in parts], "left")
    moved = Column("numbers", [Text(_moved(part)) for part in parts])
    step = Column("step", [screen.text(f"2^{math.log2(part.step):.0f}", "dim") for part in parts])
    off = Column("off by", [_scientific(part.max_abs, screen) for part in parts])
    rel = Column("of largest", [_scientific(part.max_rel, screen) for part in parts])
    allowed = Column("allowed", [_scientific(part.worst.allowed, screen) for part in parts])
    says = [
        Column("autograd", [_value(part.worst.analytic, screen) for part in parts]),
        Column("differences", [_value(part.worst.numeric, screen) for part in parts]),
        Column("at", [screen.text(_at(part.worst), "dim") for part in parts], "left"),
    ]
    mark = Column("", [_mark(part.verdict, screen) for part in parts], "left")
    yield table(
        [
            Layout([mark, name, axes, moved, step, off, rel, allowed, *says], 2),
            Layout([mark, name, moved, step, off, rel, allowed, *says], 2),
            Layout([mark, name, moved, off, allowed, *says], 2),
            Layout([mark, name, moved, off, allowed, *says[:2]], 2),
        ],
        screen,
    )


def _axes(part: InputGrads) -> str:
    return " ".join(f"{axis} {size}" for axis, size in zip(part.axes, part.shape, strict=True))


def _moved(part: InputGrads) -> str:
    every = part.checked == part.total
    return f"{part.checked:,}" if every else f"{part.checked:,} of {part.total:,}"


def _at(spot: Spot) -> str:
    return " ".join(f"{axis} {index}" for axis, index in spot.at.items())


def _norms(norms: Norms, screen: Screen) -> Iterator[Text]:
    """How long each gradient is with the scale and without it."""
    what = "gradient norms" if norms.layer is None else f"gradient norms of layer {norms.layer}"
    sizes = "" if norms.case == "input" or norms.layer is not None else f"of {norms.case}: "
    words = sizes + (", ".join(_sizes(norms.sizes)) if sizes else "")
    title = [screen.text(what, "bold"), *([screen.text(words, "dim")] if words else [])]
    yield Text("  ").join(title)
    rows = norms.rows
    columns = [
        Column("", [screen.text(written(row.name)) for row in rows], "left"),
        Column(f"scale {norms.scale:.6g}", [_value(row.scaled, screen) for row in rows]),
        Column("scale 1", [_value(row.unscaled, screen) for row in rows]),
        Column("times as long", [_times(row.ratio, screen) for row in rows]),
    ]
    yield table([Layout(columns)], screen)


def _times(ratio: float, screen: Screen) -> Text:
    return Text(screen.sign("–"), style="dim") if math.isnan(ratio) else Text(f"{ratio:.3g}")


def _mark(verdict: Verdict, screen: Screen) -> Text:
    sign, style = MARKS[verdict]
    return screen.text(sign, style)


def _scientific(value: float | None, screen: Screen) -> Text:
    """Two digits are all that an error has."""
    if value is None:
        return Text(screen.sign("–"), style="dim")
    if math.isnan(value):
        return Text(NAN, style=ERROR)
    return screen.text("∞", ERROR) if math.isinf(value) else Text(f"{value:.1e}" if value else "0")


def _value(value: float, screen: Screen) -> Text:
    if math.isnan(value):
        return Text(NAN, style=ERROR)
    return screen.text(f"{value:.6g}")
