"""Running text: wrapped to the screen's width with a hanging indent."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from attn_cli.render.terminal.console import Screen

WIDEST = 110  # cells; longer lines are hard to read


def hanging(words: Text, screen: Screen, *, indent: int) -> Text:
    """Text in lines no longer than the screen, all but the first moved right by `indent`."""
    width = min(screen.width, WIDEST)
    lines = words.wrap(screen.console, width - indent, no_wrap=False, overflow="fold")
    for line in lines:
        line.rstrip()
    return Text("\n" + " " * indent).join(lines)


def beside(head: Text, words: str, screen: Screen) -> Text:
    """Words behind a head, all their lines below the first one's beginning."""
    return head.append_text(hanging(screen.text(words), screen, indent=head.cell_len))


def packed(parts: Sequence[Text], screen: Screen, *, indent: int, first: int = 0) -> Text:
    """Parts with a quiet dot between them, broken into lines between parts where they can be.

    All lines but the first are moved right by `indent`; the first begins at column `first`.
    """
    dot = Text(f" {screen.sign('·')} ", style="dim")
    text, column = Text(), first
    for place, part in enumerate(parts):
        wide = column + dot.cell_len + part.cell_len > min(screen.width, WIDEST)
        if place and wide:
            text.append("\n" + " " * indent)
            column = indent
        elif place:
            text.append_text(dot)
            column += dot.cell_len
        text.append_text(part)
        column += part.cell_len
    return text


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number with its noun: 1 key, 2 keys, 3 queries."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
