"""Trouble: why somebody's code gave no answer, at which step, and where in their file."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from types import TracebackType
from typing import Any

STEPS = ("import", "find", "build", "call", "answer")

_LONGEST = 500  # characters of a message that is not ours


@dataclass(frozen=True, slots=True)
class Trouble:
    """`step` is one of STEPS; `kind` the exception's class, "exit", "time", "died" or "answer".

    `line` is the last line of the user's file that was running, from 1; None where none was.
    `candidates` are the names that could have been meant, `printed` what the code had printed.
    """

    step: str
    kind: str
    message: str
    line: int | None = None
    candidates: tuple[str, ...] = ()
    printed: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "kind": self.kind,
            "message": self.message,
            "line": self.line,
            "candidates": list(self.candidates),
        }


def trouble_of(answer: dict[str, Any]) -> Trouble:
    """The trouble that a worker's answer reports."""
    value = answer["trouble"]
    return Trouble(
        step=str(value["step"]),
        kind=str(value["kind"]),
        message=str(value["message"]),
        line=value["line"],
        candidates=tuple(map(str, value["candidates"])),
        printed=str(answer.get("printed", "")),
    )


def from_exception(step: str, error: BaseException, file: str | None) -> Trouble:
    """What `error` says, and the last line of `file` that was running."""
    if isinstance(error, SystemExit):
        code = "" if error.code is None else f" with {_short(str(error.code))}"
        message = f"sys.exit was called{code}"
        return Trouble(step, "exit", message, _line(error.__traceback__, file))
    if isinstance(error, SyntaxError) and (file is None or error.filename == file):
        return Trouble(step, type(error).__name__, str(error.msg), error.lineno)
    message = _short(str(error)) or "no message"
    return Trouble(step, type(error).__name__, message, _line(error.__traceback__, file))


def _line(trace: TracebackType | None, file: str | None) -> int | None:
    lines = [f.lineno for f in traceback.extract_tb(trace) if file and f.filename == file]
    return lines[-1] if lines else None


def _short(text: str) -> str:
    """The message in one line, cut where it is very long."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
