"""Named mistakes on a screen: what is done, why it is wrong, what to write, and what fits too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from attn_cli.core.results_impl import Alternative, FoundMistake
from attn_cli.core.results_mistakes import Diagnosis
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.findings import FINE
from attn_cli.render.terminal.numbers import ERROR, WARN
from attn_cli.render.terminal.prose import WIDEST, beside, hanging

LABEL = 6  # cells of the words that stand before a mistake's lines


def mistake_lines(diagnosis: Diagnosis, screen: Screen, *, of: str = "") -> Iterator[Text]:
    """A paragraph a mistake, then the other explanations; `of` says whose they are."""
    for found in diagnosis.mistakes:
        yield from mistake(found, found.evidence[:1], screen, of=of)
    yield from alternatives(diagnosis.alternatives, screen)
    if not diagnosis.whole:
        cut = f"the search was cut short after {diagnosis.tried} named mistakes"
        yield hanging(screen.text(cut, "dim"), screen, indent=2)


def mistake(
    found: FoundMistake, seen: Sequence[str], screen: Screen, *, of: str = ""
) -> Iterator[Text]:
    """Its title, its line, why it is a mistake, what was `seen` of it, what to write instead."""
    title = screen.text(f"{screen.sign('✗')} ", ERROR).append_text(screen.text(of))
    title.append_text(screen.text(found.title, "bold")).append(f"  {found.code}", "dim")
    yield hanging(title, screen, indent=2)
    if found.line is not None:
        yield source_line(found.line, found.source, screen)
    if found.note:
        yield labelled("how", found.note, screen)
    yield labelled("why", found.explanation, screen)
    for number, words in enumerate(seen):
        yield labelled("" if number else "seen", words, screen)
    yield labelled("fix", found.fix, screen, FINE)


def source_line(line: int, source: str, screen: Screen) -> Text:
    """A line of a file, as it stands there."""
    number = f"line {line}"
    label = screen.text(f"  {number}  ", WARN)
    code = screen.text(source)
    if screen.cuts:
        room = min(screen.width, WIDEST) - label.cell_len
        code = Text(screen.shortened(code.plain, room))
    return Text.assemble(label, code)


def labelled(label: str, words: str, screen: Screen, style: str = "dim") -> Text:
    """Words behind a label; their lines stand below each other."""
    return beside(screen.text(f"  {label.ljust(LABEL)}", style), words, screen)


def alternatives(others: Sequence[Alternative], screen: Screen) -> Iterator[Text]:
    """What explains the same numbers, and how to tell which it is."""
    for other in others:
        title = screen.text("or ", WARN).append_text(screen.text(other.title))
        codes = " + ".join([other.code, *other.with_codes])
        yield hanging(title.append(f"  {codes}", "dim"), screen, indent=2)
        yield hanging(screen.text(f"  to tell: {other.tell_apart}"), screen, indent=4)
