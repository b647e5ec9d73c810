"""The findings, last on the screen: notes, what is fine, warnings, errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from attn_cli.core.findings import Finding, Severity
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.numbers import ERROR, WARN
from attn_cli.render.terminal.prose import hanging, packed

FINE = "green"
MARKS: dict[Severity, tuple[str, str]] = {  # the sign and its style
    "note": ("·", "dim"),
    "warning": ("!", WARN),
    "error": ("✗", ERROR),
}


def findings(found: Sequence[Finding], fine: Sequence[str], screen: Screen) -> Iterator[Text]:
    """One paragraph a finding with its code at the end; the gravest last, where the eye rests."""
    for note in found:
        if note.severity == "note":
            yield _paragraph(note, screen)
    if fine:
        mark = screen.text("✓", FINE)
        indent = mark.cell_len + 1
        holds = packed([screen.text(words) for words in fine], screen, indent=indent, first=indent)
        yield Text(" ").join([mark, holds])
    for severity in ("warning", "error"):
        for finding in found:
            if finding.severity == severity:
                yield _paragraph(finding, screen)


def _paragraph(finding: Finding, screen: Screen) -> Text:
    sign, style = MARKS[finding.severity]
    mark = screen.text(sign, style)
    quiet = "dim" if finding.severity == "note" else ""
    words = Text(" ").join([mark, screen.text(finding.message, quiet)])
    words.append("  ").append(finding.code, "dim")
    return hanging(words, screen, indent=mark.cell_len + 1)
