"""Named mistakes on a screen: what is done, why it is wrong, what to write, and what fits too."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from attn_cli.core.results_mistakes import Diagnosis
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.prose import hanging


def mistake_lines(diagnosis: Diagnosis, screen: Screen, *, of: str = "") -> Iterator[Text]:
    """A paragraph a mistake, then the other explanations; `of` says whose they are."""
    for mistake in diagnosis.mistakes:
        note = f" ({mistake.note})" if mistake.note else ""
        title = screen.text(f"{of}{mistake.code}", "bold")
        words = screen.text(f"  {mistake.title}{note}")
        yield hanging(title.append_text(words), screen, indent=2)
        for name, said in (("why", mistake.explanation), ("fix", mistake.fix)):
            yield _labelled(name, said, screen)
        yield _labelled("seen", mistake.evidence[0], screen)
    for other in diagnosis.alternatives:
        codes = " and ".join((other.code, *other.with_codes))
        said = f"or {codes}: {other.title}. To tell it apart: {other.tell_apart}"
        yield hanging(screen.text(said), screen, indent=2)
    if not diagnosis.whole:
        cut = f"the search was cut short after {diagnosis.tried} named mistakes"
        yield hanging(screen.text(cut, "dim"), screen, indent=2)


def _labelled(name: str, said: str, screen: Screen) -> Text:
    line = screen.text(f"  {name:<4} ", "dim").append_text(screen.text(said))
    return hanging(line, screen, indent=7)
