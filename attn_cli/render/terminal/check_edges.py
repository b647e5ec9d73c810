"""The screen of `attn check edges`: how each kind went, and the first failure of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.text import Text

from attn_cli.core.results_edges import EdgeOutcome, EdgesResult, KindCount, Verdict
from attn_cli.render.terminal.check_edges_case import case_blocks
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.findings import FINE, findings
from attn_cli.render.terminal.numbers import ERROR, WARN
from attn_cli.render.terminal.prose import counted, hanging, packed
from attn_cli.render.terminal.table import Column, Layout, table

STYLES: dict[Verdict, str] = {"passed": "", "failed": ERROR, "unsupported": WARN}
TITLES: dict[Verdict, str] = {
    "passed": "passed",
    "failed": "failed",
    "unsupported": "not supported",
}
WORDS: dict[Verdict, str] = {**TITLES, "unsupported": "not supp."}
SIGNS: dict[Verdict, str] = {"passed": "✓", "failed": "✗", "unsupported": "–"}


def edges_screen(result: EdgesResult, screen: Screen) -> str:
    """The whole screen as text; of one case that was asked for, the case in full."""
    if result.detail is not None:
        return screen.render([*case_blocks(result, screen), *_notes(result, screen)])
    blocks = [_header(result, screen), Text(), _kinds(result, screen)]
    for failure in result.first_failures:
        blocks += [Text(), *_failure(failure, result, screen)]
    blocks += [Text(), *_refusals(result, screen), *_notes(result, screen)]
    return screen.render([*blocks, _verdict(result, screen)])


def _header(result: EdgesResult, screen: Screen) -> Text:
    title = screen.text("edges", "bold")
    facts = [
        counted(len(result.outcomes) // len(result.engines), "case"),
        counted(len(result.kinds), "kind"),
        f"{result.held}{'' if len(result.engines) == 1 else 's'} {', '.join(result.engines)}",
        ", ".join(dict.fromkeys(outcome.dtype for outcome in result.outcomes)),
        f"seed {result.seed}",
    ]
    words = packed([screen.text(fact) for fact in facts], screen, indent=2, first=7)
    return Text("  ").join([title, words])


def _kinds(result: EdgesResult, screen: Screen) -> Text:
    """One line a kind, and three columns an engine."""
    counts = {
        engine: [result.count(engine, kind) for kind in result.kinds] for engine in result.engines
    }
    first = Column("kind", [screen.text(kind) for kind in result.kinds], "left")
    cases = next(iter(counts.values()))
    total = Column("cases", [Text(str(count.total)) for count in cases])
    if len(result.engines) == 1:
        three = [_column(verdict, cases, screen) for verdict in TITLES]
        return table([Layout([first, total, *three], gap) for gap in (3, 2)], screen)
    layouts = []
    for words, gap in ((WORDS, 3), (WORDS, 2), (SIGNS, 3), (SIGNS, 2)):
        engines = [
            Column(engine, [_cell(count, words, screen) for count in counts[engine]], "left")
            for engine in result.engines
        ]
        layouts.append(Layout([first, total, *engines], gap))
    return table(layouts, screen)


def _column(verdict: Verdict, counts: list[KindCount], screen: Screen) -> Column:
    numbers = [getattr(count, verdict) for count in counts]
    cells = [Text(str(n), style=STYLES[verdict]) if n else screen.text("–", "dim") for n in numbers]
    return Column(TITLES[verdict], cells)


def _cell(count: KindCount, words: Mapping[Verdict, str], screen: Screen) -> Text:
    """What became of an engine's cases of one kind, as short as the words are."""
    numbers: dict[Verdict, int] = {verdict: getattr(count, verdict) for verdict in TITLES}
    parts = [
        screen.text(f"{number} {words[verdict]}", STYLES[verdict])
        for verdict, number in numbers.items()
        if number
    ]
    return Text(", ").join(parts)


def _failure(failure: EdgeOutcome, result: EdgesResult, screen: Screen) -> Iterator[Text]:
    """The first failing case of a kind: what it asks, what came, and how to see it alone."""
    name = screen.text(f"{failure.kind}/{failure.name}", "bold")
    engine = f"  {failure.engine}" if len(result.engines) > 1 else ""
    yield Text.assemble(screen.text(screen.sign("✗"), ERROR), " ", name, screen.text(engine))
    yield hanging(screen.text(f"  {failure.asks}"), screen, indent=2)
    yield hanging(screen.text(f"  {failure.message}"), screen, indent=2)
    yield screen.text(f"  {failure.reproduce}", "dim")


def _refusals(result: EdgesResult, screen: Screen) -> Iterator[Text]:
    """Why cases were not supported: each cause once, in the words of its first case.

    A refusal is what came, a colon and the cause, and the former differs from case to case.
    """
    told: dict[tuple[str, str], list[str]] = {}
    for outcome in result.outcomes:
        if outcome.verdict == "unsupported":
            came, _, cause = outcome.message.partition(": ")
            told.setdefault((outcome.engine, cause or came), []).append(outcome.message)
    for (engine, _), messages in told.items():
        first = "" if len(set(messages)) == 1 else "such as "
        of = f"{engine}: " if result.held == "engine" else ""
        words = f"{of}{counted(len(messages), 'case')} not supported: {first}{messages[0]}"
        mark = screen.text("!", WARN)
        yield hanging(Text(" ").join([mark, screen.text(words)]), screen, indent=2)


def _notes(result: EdgesResult, screen: Screen) -> Iterator[Text]:
    yield from findings(result.notes, (), screen)


def _verdict(result: EdgesResult, screen: Screen) -> Text:
    """How many passed, failed, were not supported: last, where the eye rests."""
    numbers: dict[Verdict, int] = {verdict: result.number(verdict) for verdict in TITLES}
    passed = numbers["passed"] and not numbers["failed"]
    mark = (
        screen.text("✓", FINE) if passed else screen.text("✗" if numbers["failed"] else "!", ERROR)
    )
    parts = [
        f"{number:,} {TITLES[verdict]}"
        for verdict, number in numbers.items()
        if number or verdict == "passed"
    ]
    return Text(" ").join([mark, screen.text(", ".join(parts))])
