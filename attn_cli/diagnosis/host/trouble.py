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
        code = "" if error.code is None else f" with {_short(_text(error.code))}"
        message = f"sys.exit was called{code}"
        return Trouble(step, "exit", message, _line(error.__traceback__, file))
    if isinstance(error, SyntaxError) and (file is None or error.filename == file):
        line = error.lineno or None  # 0 where it is the encoding
        return Trouble(step, type(error).__name__, _short(_text(error.msg)), line)
    message = _short(_text(error)) or "no message"
    return Trouble(step, type(error).__name__, message, _line(error.__traceback__, file))


def _text(value: object) -> str:
    """Its text, without what no terminal and no JSON can hold; its own __str__ may raise."""
    try:
        text = str(value)[: 4 * _LONGEST]
    except BaseException as error:
        return f"its message cannot be read: __str__ raises {type(error).__name__}"
    return text.encode("utf-8", "replace").decode()


def _line(trace: TracebackType | None, file: str | None) -> int | None:
    lines = [f.lineno for f in traceback.extract_tb(trace) if file and f.filename == file]
    return lines[-1] if lines else None


def _short(text: str) -> str:
    """The message in one line, cut where it is very long."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
