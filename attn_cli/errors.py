"""Errors that a user can mend, and the exit codes of every command."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the shell sees; the same for every command."""

    OK = 0  # fine, or both sides agree
    DIFFERS = 1  # the check failed, or the sides differ
    CANNOT_RUN = 2  # bad usage, unreadable or impossible input
    UNDECIDED = 3  # the tool abstains and says why
    INTERRUPTED = 130


class AttnError(Exception):
    """Something the user can mend: one sentence of what was expected and came, and the next step.

    Anything else that is raised is a fault of attn itself and keeps its traceback.
    """

    code = ExitCode.CANNOT_RUN

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class InputError(AttnError):
    """The input cannot be read, or what it says is impossible."""


class MisfitError(InputError):
    """Everything can be read, and its shapes do not fit together: for a check of shapes, a no."""


class UnsupportedError(AttnError):
    """An engine, format or mask was asked for what it cannot do; the hint names what can."""


class UndecidedError(AttnError):
    """attn abstains, and says why: what it would report could not be relied on."""

    code = ExitCode.UNDECIDED
