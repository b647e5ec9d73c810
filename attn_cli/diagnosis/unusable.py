"""Unusable: the code cannot be imported, found, built or called; the step, and what to do."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from attn_cli.diagnosis.host.trouble import Trouble
from attn_cli.errors import InputError

_VERBS = {
    "import": "cannot be imported",
    "find": "cannot be used",
    "build": "cannot be built",
    "call": "fails",
    "answer": "gives no answer",
}

# Kinds of trouble that are no exception of the code's: the message says it all.
_OURS = ("exit", "time", "died", "answer", "missing", "not callable", "suffix", "arguments")


class Unusable(InputError):
    """Why somebody's code could not be checked. `trouble` says at which step, and on which line.

    `tried` is the call or the construction that was tried, `printed` what the code printed.
    """

    def __init__(self, name: str, trouble: Trouble, *, tried: str = "", hint: str = "") -> None:
        self.name, self.trouble, self.tried = name, trouble, tried
        self.printed = trouble.printed
        super().__init__(_sentence(name, trouble, tried), hint or _hint(name, trouble))

    def to_dict(self) -> dict[str, Any]:
        return {**self.trouble.to_dict(), "tried": self.tried, "printed": self.printed}


def _sentence(name: str, trouble: Trouble, tried: str) -> str:
    line = f"line {trouble.line}: " if trouble.line is not None else ""
    what = trouble.message if trouble.kind in _OURS else f"{trouble.kind}: {trouble.message}"
    by = f" when called by {tried}" if tried and trouble.step in ("call", "answer") else ""
    return f"{name} {_VERBS[trouble.step]}{by}: {line}{what}"


def _hint(name: str, trouble: Trouble) -> str:
    if trouble.step == "find":
        wanted = name.rpartition(":")[2]
        near = difflib.get_close_matches(wanted, trouble.candidates, n=1)
        listed = ", ".join(trouble.candidates[:12])
        meant = f"did you mean {near[0]}? " if near else ""
        return f"{meant}{Path(name.rpartition(':')[0]).name} has {listed or 'no function or class'}"
    if trouble.kind == "ModuleNotFoundError":
        return "install it into the environment that attn runs in"
    if trouble.step == "import" and trouble.kind == "exit":
        return "guard what the file does as a program by if __name__ == '__main__'"
    return ""
