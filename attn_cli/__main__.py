"""`python -m attn_cli`: the command line without an installed script."""

from __future__ import annotations

from attn_cli.commands.main import entry

if __name__ == "__main__":
    entry()
