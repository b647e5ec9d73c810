"""attn check: a group of checks; one file each, and a line here."""

from __future__ import annotations

from importlib import import_module

import typer

from attn_cli.commands.options import EXIT_CODES

# A check is a module with `register(group)`.
CHECKS: dict[str, str] = {
    "dump": "attn_cli.commands.check.dump",
    "impl": "attn_cli.commands.check.impl",
    "edges": "attn_cli.commands.check.edges",
    "grads": "attn_cli.commands.check.grads",
    "shapes": "attn_cli.commands.check.shapes",
    "numerics": "attn_cli.commands.check.numerics",
}

HELP = "Checks: is code right, do shapes fit and edge cases hold, are gradients and numbers sound?"


def register(app: typer.Typer) -> None:
    """Adds the group to the app; what a check computes with it imports when it is called."""
    group = typer.Typer(name="check", help=HELP, epilog=EXIT_CODES)
    for module in CHECKS.values():
        import_module(module).register(group)
    app.add_typer(group)
