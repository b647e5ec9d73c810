"""The screen of `attn check dump`: a line a stage, what does not follow, the verdict last."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from attn_cli.core.results_dump import DumpResult, StageCheck
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.diff import signature
from attn_cli.render.terminal.diff_verdict import place, stage_noun
from attn_cli.render.terminal.findings import FINE, findings
from attn_cli.render.terminal.header import NO_MASK, setting_words, size_words
from attn_cli.render.terminal.mistakes import mistake_lines
from attn_cli.render.terminal.numbers import ERROR, WARN
from attn_cli.render.terminal.prose import counted, hanging, packed
from attn_cli.render.terminal.table import Column, Layout, table

STYLES = {"given": "dim", "consistent": FINE, "inconsistent": ERROR, "not checked": WARN}
NOT_FINITE = "NaN/∞"
LEFT_OUT = ("shape", "beyond", "where", "budget")


def dump_screen(result: DumpResult, screen: Screen) -> str:
    """The whole screen as text."""
    blocks = [
        [_header(result, screen)],
        [_stages(result, screen), *_reasons(result, screen)],
        list(_difference(result, screen)),
        list(findings(result.findings, (), screen)),
        list(mistake_lines(result.diagnosis, screen)),
    ]
    lines = [line for block in blocks if block for line in (*block, Text())]
    return screen.render([*lines, _verdict(result, screen)])


def _header(result: DumpResult, screen: Screen) -> Text:
    title = screen.text("standard input" if result.source == "-" else result.source, "bold")
    facts = [result.dtype, *([result.told] if result.told else [])]
    if result.input is not None:
        facts += size_words(result.input, result.settings)
        words = setting_words(result.input, result.settings, masked=bool(result.masked))
        unknown = result.masked is None
        facts += ["a mask unknown" if w == NO_MASK and unknown else w for w in words]
    facts.append(f"budget {result.tolerance}")
    said = packed([screen.text(fact) for fact in facts], screen, indent=2, first=title.cell_len + 2)
    return Text("  ").join([title, said])


def _stages(result: DumpResult, screen: Screen) -> Text:
    """One line a stage; on a narrow screen the columns that say least are left out."""
    columns = _columns(result.stages, screen)
    layouts = [Layout(columns, gap) for gap in (3, 2)]
    for most in range(1, len(LEFT_OUT) + 1):
        kept = [column for column in columns if column.title not in LEFT_OUT[:most]]
        layouts.append(Layout(kept, 2))
    return table(layouts, screen)


def _columns(stages: tuple[StageCheck, ...], screen: Screen) -> list[Column]:
    return [
        Column("stage", [screen.text(s.stage, "bold") for s in stages], "left"),
        Column("shape", [screen.text("×".join(map(str, s.shape))) for s in stages], "left"),
        Column("made from", [screen.text(", ".join(s.made_from)) for s in stages], "left"),
        Column("verdict", [screen.text(s.verdict, STYLES[s.verdict]) for s in stages], "left"),
        Column("difference", [_gap(s, screen) for s in stages]),
        Column("budget", [_budget(s, screen) for s in stages]),
        Column("beyond", [_beyond(s, screen) for s in stages]),
        Column("where", [_where(s, screen) for s in stages], "left"),
    ]


def _gap(check: StageCheck, screen: Screen) -> Text:
    found = check.result
    if found is None or found.verdict == "identical":
        return screen.text("–", "dim")
    if found.nonfinite:
        return screen.text(NOT_FINITE, ERROR)
    return screen.text(f"{found.max_abs:.3g}")


def _budget(check: StageCheck, screen: Screen) -> Text:
    found = check.result
    if found is None or found.verdict == "identical" or found.nonfinite:
        return screen.text("–", "dim")
    return screen.text(f"{found.budget:.3g}")


def _beyond(check: StageCheck, screen: Screen) -> Text:
    found = check.result
    if found is None or not found.beyond:
        return screen.text("–", "dim")
    return screen.text(f"{found.beyond:,} of {found.elements:,}", ERROR)


def _where(check: StageCheck, screen: Screen) -> Text:
    found = check.result
    return screen.text("" if found is None or found.verdict == "identical" else place(found))


def _reasons(result: DumpResult, screen: Screen) -> Iterator[Text]:
    for check in result.stages:
        if check.verdict == "not checked":
            words = f"not checked: {check.stage}, {check.reason}"
            yield hanging(screen.text(words, "dim"), screen, indent=2)


def _difference(result: DumpResult, screen: Screen) -> Iterator[Text]:
    """What was measured of the first wrong stage that no mistake explains."""
    unexplained = result.diagnosis.unexplained
    for check in result.stages:
        if check.result is not None and check.stage in unexplained:
            yield from signature(check.result, screen)
            words = "left is the file, right what the stages before make"
            yield hanging(screen.text(f"  {words}", "dim"), screen, indent=2)
            return


def _verdict(result: DumpResult, screen: Screen) -> Text:
    """The last line or two."""
    first = result.first_inconsistent
    if first is not None:
        words = "; ".join(_wrong(result, first))
        return _line("✗", words, screen, ERROR)
    checked = len(result.coverage["checked"])
    if not checked:
        words = "no stage could be recomputed from another, so nothing is decided"
        return _line("?", words, screen, "bold yellow")
    words = f"{counted(checked, 'stage')} recomputed, and each follows from what is before it"
    assumed = " by the mask that the file itself shows" if result.masked is None else ""
    return _line("✓", words + assumed, screen, FINE)


def _wrong(result: DumpResult, first: StageCheck) -> Iterator[str]:
    sources = " and ".join(filter(None, [", ".join(first.made_from[:-1]), first.made_from[-1]]))
    noun, verb = stage_noun(first.stage)
    yield f"{noun} {verb} not follow from {sources}"
    found = first.result
    if found is not None and found.values is not None:
        held, made = found.values
        at = place(found)
        yield f"worst at {at}: the file has {held:.6g}, they make {made:.6g}"
    yield result.diagnosis.words or "no named mistake explains it"


def _line(sign: str, words: str, screen: Screen, style: str) -> Text:
    mark = screen.text(sign, style)
    line = Text(" ").join([mark, screen.text(words, "bold")])
    return hanging(line, screen, indent=mark.cell_len + 1)
