"""--list: the names that an option knows."""

from __future__ import annotations

import sys

from attn_cli.commands.output import encoding, write
from attn_cli.errors import ExitCode


def show_list(kind: str, *, json: bool) -> ExitCode:
    """Prints the masks, engines, statistics, formats or stages."""
    from attn_cli.workflows.listing import listing

    found = listing(kind)
    if json:
        from attn_cli.render.json_text import json_text

        write(json_text(found.to_dict(), encoding()))
    else:
        from attn_cli.render.terminal.console import screen_for
        from attn_cli.render.terminal.listing import listing_screen

        write(listing_screen(found, screen_for(sys.stdout)))
    return ExitCode.OK
