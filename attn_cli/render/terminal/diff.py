"""The screen of `attn diff`: who is compared, a line a stage, what differs, the verdict last."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.text import Text

from attn_cli.core.results_diff import SIDES, DiffResult, OfSide, Side, SideInfo, StageResult
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.diff_verdict import place, verdict
from attn_cli.render.terminal.findings import findings
from attn_cli.render.terminal.header import NO_MASK, setting_words, size_words
from attn_cli.render.terminal.mistakes import mistake_lines
from attn_cli.render.terminal.numbers import ERROR
from attn_cli.render.terminal.prose import counted, hanging, packed
from attn_cli.render.terminal.table import Column, Layout, table

STYLES = {"identical": "dim", "rounding": "green", "different": ERROR}
NOT_FINITE, NO_NUMBER = "not finite", "NaN/∞"
LEFT_OUT = ("shape", "dtype", "where", "relative", "ulp", "beyond", "left error", "right error")


def diff_screen(result: DiffResult, screen: Screen) -> str:
    """The whole screen as text."""
    blocks = [_header(result, screen)]
    if result.stages:
        blocks.append([_stages(result, screen), *_not_compared(result, screen)])
    else:
        blocks.append(list(_not_compared(result, screen)))
    blocks += [list(signature(stage, screen)) for stage in result.stages]
    blocks.append(list(findings(result.findings, (), screen)))
    blocks += [
        list(mistake_lines(found, screen, of=f"{side}: "))
        for side, found in result.mistakes.items()
        if found.mistakes
    ]
    lines = [line for block in blocks if block for line in (*block, Text())]
    return screen.render([*lines, verdict(result, screen)])


def _header(result: DiffResult, screen: Screen) -> list[Text]:
    """Both sides, the input, and what the sides are held against."""
    sides = [_side(name, result, screen) for name in SIDES]
    lines = [packed([screen.text(part) for part in _input(result)], screen, indent=2)]
    held = "no oracle" if result.oracle is None else f"held against float64 of {result.oracle}"
    compared = len(result.coverage.compared)
    total = counted(compared + len(result.coverage.missing), "stage")
    facts = [f"{compared} of {total} compared", held]
    facts.append(f"budget {result.tolerance}")
    lines.append(packed([screen.text(fact) for fact in facts], screen, indent=2))
    return [*sides, *(line for line in lines if line.plain)]


def _side(side: Side, result: DiffResult, screen: Screen) -> Text:
    info: SideInfo = getattr(result, side)
    line = screen.text(f"{side:<7}", "dim").append_text(screen.text(info.name, "bold"))
    facts = [info.dtype]
    facts += [] if info.device == "cpu" else [f"on {info.device}"]
    facts += [] if info.softmax is None else [f"softmax in {info.softmax}"]
    facts += [] if not info.note else [info.note]
    words = packed([screen.text(f) for f in facts], screen, indent=9, first=line.cell_len + 2)
    return Text("  ").join([line, words])


def _input(result: DiffResult) -> Iterator[str]:
    if result.input is None or result.settings is None:
        return
    if result.left.kind == "engine":
        yield "standard input" if result.input.source == "-" else result.input.source
    yield from size_words(result.input, result.settings)
    said = setting_words(result.input, result.settings, masked=bool(result.masked))
    yield from ("a mask unknown" if w == NO_MASK and result.masked is None else w for w in said)


def _stages(result: DiffResult, screen: Screen) -> Text:
    """One line a stage; on a narrow screen the columns that say least are left out."""
    columns = _columns(result, screen)
    layouts = [Layout(columns, gap) for gap in (3, 2)]
    same = all(stage.left.shape == stage.right.shape for stage in result.stages)
    optional = LEFT_OUT if same else LEFT_OUT[1:]  # shapes that differ are the news
    for most in range(1, len(optional) + 1):
        kept = [column for column in columns if column.title not in optional[:most]]
        layouts.append(Layout(kept, 2))
    return table(layouts, screen)


def _columns(result: DiffResult, screen: Screen) -> list[Column]:
    stages = result.stages
    columns = [
        Column("stage", [screen.text(stage.stage, "bold") for stage in stages], "left"),
        Column("shape", [screen.text(_shapes(stage)) for stage in stages], "left"),
        Column("dtype", [screen.text(_dtypes(stage)) for stage in stages], "left"),
        Column("verdict", [screen.text(s.verdict, STYLES[s.verdict]) for s in stages], "left"),
        Column("difference", [_difference(stage, screen) for stage in stages]),
        Column("relative", [_figure(stage.max_rel, stage, screen) for stage in stages]),
        Column("ulp", [_figure(stage.ulps, stage, screen, finite=True) for stage in stages]),
        Column("budget", [_figure(stage.budget, stage, screen, finite=True) for stage in stages]),
        Column("beyond", [_beyond(stage, screen) for stage in stages]),
        Column("left error", [_error(stage.left, screen) for stage in stages]),
        Column("right error", [_error(stage.right, screen) for stage in stages]),
        Column("where", [screen.text(_where(stage)) for stage in stages], "left"),
        Column("own fault", [_fault(stage, screen) for stage in stages], "left"),
    ]
    same_dtype = len({dtype for s in stages for dtype in (s.left.dtype, s.right.dtype)}) == 1
    as_header = all(
        (s.left.dtype, s.right.dtype) == (result.left.dtype, result.right.dtype) for s in stages
    )
    if same_dtype or as_header:  # the header says it
        columns = [column for column in columns if column.title != "dtype"]
    return columns


def _shapes(stage: StageResult) -> str:
    left, right = ("×".join(map(str, side.shape)) for side in (stage.left, stage.right))
    return left if left == right else f"{left} | {right}"


def _dtypes(stage: StageResult) -> str:
    left, right = stage.left.dtype, stage.right.dtype
    return left if left == right else f"{left} | {right}"


def _figure(value: float, stage: StageResult, screen: Screen, *, finite: bool = False) -> Text:
    """Three digits; a quiet dash where nothing was compared or nothing differs.

    `finite`: of the worst element alone, which has none where it is not finite on one side.
    """
    if stage.verdict == "identical" or not stage.where or (finite and stage.nonfinite):
        return screen.text("–", "dim")
    return screen.text(f"{value:.3g}")


def _difference(stage: StageResult, screen: Screen) -> Text:
    """The largest difference of two numbers, or that one of the two is none."""
    if stage.nonfinite:
        return screen.text(NO_NUMBER, ERROR)
    return _figure(stage.max_abs, stage, screen)


def _beyond(stage: StageResult, screen: Screen) -> Text:
    if not stage.where or not stage.beyond:
        return screen.text("–", "dim")
    return screen.text(f"{stage.beyond:,} of {stage.elements:,}", ERROR)


def _error(side: OfSide, screen: Screen) -> Text:
    """The distance from the oracle, marked where it is beyond the side's own budget."""
    if math.isnan(side.error):
        return screen.text("–", "dim")
    error = NO_NUMBER if math.isinf(side.error) else f"{side.error:.3g}"
    return screen.text(f"! {error}", ERROR) if side.beyond else screen.text(error)


def _where(stage: StageResult) -> str:
    return "" if stage.verdict == "identical" else place(stage)


def _fault(stage: StageResult, screen: Screen) -> Text:
    """Whose own fault shows, who inherits, and which side was made for it."""
    cell = Text()
    words: list[tuple[str, str]] = [(side, ERROR) for side in stage.faulty]
    words += [(f"{side} inherited", "dim") for side in stage.inheriting]
    words += [(f"{side} derived", "dim") for side in SIDES if getattr(stage, side).derived]
    for number, (word, style) in enumerate(words):
        cell.append(", " if number else "").append_text(screen.text(word, style))
    return cell


def _not_compared(result: DiffResult, screen: Screen) -> Iterator[Text]:
    by_reason: dict[str, list[str]] = {}
    for stage, reason in result.coverage.missing.items():
        by_reason.setdefault(reason, []).append(stage)
    for reason, stages in by_reason.items():
        words = f"not compared: {', '.join(stages)}, {reason}"
        yield hanging(screen.text(words, "dim"), screen, indent=2)


def signature(stage: StageResult, screen: Screen) -> Iterator[Text]:
    """What was measured of a stage that is different, and is not only handed down."""
    if not stage.signature or (stage.inheriting and not stage.faulty):
        return
    title = screen.text(f"{stage.stage}, as it differs", "bold")
    worst = f"{stage.beyond:,} of {stage.elements:,} beyond the budget, up to {stage.max_rel:.3g} "
    worst += "relative; the worst"
    worst += (
        f" at {place(stage)}" if stage.nonfinite else f", {stage.ulps:.3g} ulp, at {place(stage)}"
    )
    yield hanging(Text("  ").join([title, screen.text(worst)]), screen, indent=2)
    names = [fact.name for fact in stage.signature] + ([NOT_FINITE] if stage.nonfinite else [])
    wide = max(map(len, names)) + 2
    for fact in stage.signature:
        name = screen.text(f"  {fact.name:<{wide}}", "dim")
        yield hanging(name.append_text(screen.text(fact.words)), screen, indent=wide + 2)
    yield from _nonfinite(stage, screen, wide)


def _nonfinite(stage: StageResult, screen: Screen, wide: int) -> Iterator[Text]:
    spelled = {"nan": "NaN", "+inf": "∞", "-inf": "−∞"}
    sides: Sequence[str] = [
        f"{side} alone {', '.join(f'{n:,} {spelled[name]}' for name, n in counts.items())}"
        for side, counts in stage.nonfinite.items()
    ]
    if sides:
        name = screen.text(f"  {NOT_FINITE:<{wide}}", "dim")
        yield hanging(name.append_text(screen.text("; ".join(sides))), screen, indent=wide + 2)
