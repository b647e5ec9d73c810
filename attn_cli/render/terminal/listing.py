"""A list of names with their meanings, the meanings aligned and wrapped."""

from __future__ import annotations

from rich.text import Text

from attn_cli.core.listing import Listing
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.prose import hanging

WIDEST_NAME = 34  # a longer name has its meaning on the next line


def listing_screen(listing: Listing, screen: Screen) -> str:
    """One paragraph a name."""
    widths = [len(entry.name) for entry in listing.entries]
    indent = 2 + max([width for width in widths if width <= WIDEST_NAME], default=0)
    paragraphs = []
    for entry in listing.entries:
        name = screen.text(entry.name, "bold")
        gap = " " * (indent - name.cell_len) if name.cell_len < indent else "\n" + " " * indent
        meaning = hanging(screen.text(entry.meaning), screen, indent=indent)
        paragraphs.append(Text.assemble(name, gap, meaning))
    return screen.render(paragraphs)
