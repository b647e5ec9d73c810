"""The screen of `attn check impl`: how the code was asked, what it does, which mistake it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from attn_cli.core.results_impl import (
    Behaviour,
    ImplResult,
    Outcome,
    Status,
)
from attn_cli.render.terminal.check_impl_plan import plan_lines
from attn_cli.render.terminal.code_trace import code_trace, parting_words
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.findings import FINE, findings
from attn_cli.render.terminal.mistakes import alternatives, labelled, mistake, source_line
from attn_cli.render.terminal.numbers import ERROR, WARN
from attn_cli.render.terminal.prose import beside, counted, hanging

MARKS: dict[Status, tuple[str, str]] = {
    "holds": ("✓", FINE),
    "fails": ("✗", ERROR),
    "note": ("·", "dim"),
    "skipped": ("–", "dim"),
}
OUTCOMES: dict[Outcome, str] = {  # in the order in which they are said
    "differs": "differ",
    "fails": "fail",
    "convention": "differ by a convention",
    "agrees": "agree",
    "not taken": "not taken",
}
NAMED = 8  # probes that are named of one outcome


def check_impl_screen(result: ImplResult, screen: Screen, *, trace: bool = False) -> str:
    """The whole screen as text; with `trace` every line of the code."""
    blocks = [
        list(plan_lines(result, screen)),
        [*_behaviour(result.behaviour, screen), *_probes(result, screen)],
        list(_conventions(result, screen)),
    ]
    if trace and result.trace is not None:
        blocks.append(list(code_trace(result.trace, screen)))
    blocks += [
        list(_mistake(place, result, screen, trace=trace)) for place in range(len(result.mistakes))
    ]
    blocks.append(list(alternatives(result.alternatives, screen)))
    if result.verdict == "undecided":
        blocks.append(list(_undecided(result, screen, trace=trace)))
    blocks.append([_verdict(result, screen)])
    lines = [line for block in blocks if block for line in (*block, Text())]
    return screen.render(lines[:-1])


def _behaviour(lines: Sequence[Behaviour], screen: Screen) -> Iterator[Text]:
    """One line a property: whether the code has it."""
    if not lines:
        return
    width = max(len(line.check) for line in lines)
    for line in lines:
        sign, style = MARKS[line.status]
        mark = screen.text(sign, style)
        name = screen.text(line.check.ljust(width + 1), "" if line.status == "fails" else "dim")
        head = Text.assemble(mark, " ", name, " ")
        yield beside(head, line.detail, screen)


def _probes(result: ImplResult, screen: Screen) -> Iterator[Text]:
    """How many questions came out how, and which."""
    dtypes = dict.fromkeys(probe.dtype for probe in result.probes)
    title = f"{counted(len(result.probes), 'probe')} in {', '.join(dtypes)}"
    parts = []
    for outcome, said in OUTCOMES.items():
        names = [probe.name for probe in result.probes if probe.outcome == outcome]
        if names:
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            named = ", ".join(f"“{name}”" for name in names[:NAMED])
            shown = "" if outcome == "agrees" else f": {named}{more}"
            parts.append(f"{len(names)} {said}{shown}")
    yield hanging(screen.text(f"{title}: {'; '.join(parts)}", "dim"), screen, indent=2)
    failing = [probe for probe in result.probes if probe.outcome == "fails"]
    for probe in failing[:1]:
        words = f"  “{probe.name}” fails with {probe.detail}"
        yield hanging(screen.text(words), screen, indent=4)


def _conventions(result: ImplResult, screen: Screen) -> Iterator[Text]:
    """What is no textbook attention and right all the same; then what attn chose by itself."""
    for said in _beyond_behaviour(result):
        text = screen.text(f"{screen.sign('·')} convention: {said}")
        yield hanging(text, screen, indent=2)
    yield from findings(result.findings, (), screen)


def _beyond_behaviour(result: ImplResult) -> list[str]:
    """The conventions that no line of the behaviour says already."""
    said = [f"rows that see nothing {line.detail}" for line in result.behaviour]
    return [words for words in result.conventions if words not in said]


def _mistake(place: int, result: ImplResult, screen: Screen, *, trace: bool) -> Iterator[Text]:
    """The mistake, with the evidence that the one before it has not."""
    found = result.mistakes[place]
    told = result.mistakes[place - 1].evidence if place else ()  # both have what they share
    seen = [words for words in found.evidence if words not in told]
    parting = None if result.trace is None else result.trace.first_parting
    if parting is not None and parting.line == found.line and not trace:
        seen.append(f"it {parting_words(parting)}: {parting.detail}")
    yield from mistake(found, seen, screen)


def _undecided(result: ImplResult, screen: Screen, *, trace: bool) -> Iterator[Text]:
    """Where it parts from the reference, and how what it gives differs."""
    parting = None if result.trace is None else result.trace.first_parting
    if parting is not None and not trace:
        yield source_line(parting.line, parting.source, screen)
        words = f"it {parting_words(parting)}: {parting.detail}"
        yield labelled("seen", words, screen)
    for words in result.signatures:
        yield hanging(screen.text(f"{screen.sign('·')} {words}"), screen, indent=2)


def _verdict(result: ImplResult, screen: Screen) -> Text:
    """The verdict in one line: last, where the eye rests."""
    sign, style = {
        "correct": ("✓", FINE),
        "wrong": ("✗", ERROR),
        "fragile": ("✗", ERROR),
        "undecided": ("?", WARN),
    }[result.verdict]
    mark = screen.text(sign, style)
    words = Text.assemble(mark, " ", (result.verdict, "bold"), screen.text(_because(result)))
    return hanging(words, screen, indent=mark.cell_len + 1)


def _because(result: ImplResult) -> str:
    asked = [probe for probe in result.probes if probe.outcome != "not taken"]
    off = sum(probe.outcome in ("differs", "fails") for probe in asked)
    if result.verdict == "correct":
        alike = "as the float64 reference, within rounding"
        by = ", by the conventions above" if _beyond_behaviour(result) else ""
        return f": {counted(len(asked), 'probe')} {alike}{by}"
    if result.verdict == "undecided" and not off:
        of = f"{result.asked.probes} of {counted(result.asked.of, 'probe')}"
        return f": {of} were asked, too few for code to be called correct; those agree"
    if result.verdict == "undecided":
        parting = None if result.trace is None else result.trace.first_parting
        where = f"; line {parting.line} parts first" if parting is not None else ""
        return (
            f": {off} of {counted(len(asked), 'probe')} are not the reference's, and no named "
            f"mistake, nor two, explain them{where}"
        )
    named = [
        one.code + (f" on line {one.line}" if one.line is not None else "")
        for one in result.mistakes
    ]
    large = "right but for large scores: " if result.verdict == "fragile" else ""
    if not named:
        return f": {large}{off} of {counted(len(asked), 'probe')} are not the reference's"
    either = " (or what stands below it)" if result.alternatives else ""
    return f": {large}{' and '.join(named)}{either}"
