"""Screens to draw on in tests, and the text that a part leaves there."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from attn_cli.render.terminal.console import HEIGHT, UNBOUNDED, Screen


def terminal(width: int, *, colour: str | None = None, encoding: str = "utf-8") -> Screen:
    """A terminal of so many columns; `colour` is a colour system by Rich's name."""
    return Screen(_console(width, colour), width, cuts=True, encoding=encoding)


def pipe(width: int = 100, *, encoding: str = "utf-8") -> Screen:
    """No terminal: nothing is cut."""
    return Screen(_console(UNBOUNDED, None), width, cuts=False, encoding=encoding)


def drawn(parts: Iterable[Text] | Text, screen: Screen) -> list[str]:
    """The lines that the parts leave on the screen."""
    shown = [parts] if isinstance(parts, Text) else parts
    return screen.render(shown).splitlines()


def _console(width: int, colour: str | None) -> Console:
    return Console(
        file=io.StringIO(),
        width=width,
        height=HEIGHT,
        color_system=colour,  # type: ignore[arg-type]
        force_terminal=colour is not None,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
        _environ={},
    )
