"""Patterns of tokens: a user's regular expression, with an end to how long it may take."""

from __future__ import annotations

import re
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from attn_cli.errors import InputError

SECONDS = 2.0  # for all tokens of an input; what takes longer will not end
LONGEST = 1_000  # characters of one token that are looked at
NAMED = 60  # characters of a pattern that are repeated in a message


def compiled(pattern: str, option: str) -> re.Pattern[str]:
    """The pattern; InputError where it is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a later Python will read otherwise
            return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise InputError(f"{option} has /{named(pattern)}/: {error}") from error


def named(pattern: str) -> str:
    """A pattern as a message repeats it."""
    return pattern if len(pattern) <= NAMED else pattern[:NAMED] + "…"


@contextmanager
def limited(pattern: str, option: str) -> Iterator[None]:
    """InputError where what is inside takes longer, as patterns such as (a+)+$ may.

    By an alarm, which Python's matching lets through; where there is none (Windows, another
    thread), Ctrl-C ends it.
    """
    alarm = getattr(signal, "SIGALRM", None)
    if alarm is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(signum: int, frame: FrameType | None) -> None:
        raise InputError(
            f"{option} has /{named(pattern)}/, which takes longer than {SECONDS:g} s on these "
            "tokens",
            hint="repeated repetitions such as (a+)+ take time that doubles with each character",
        )

    before = signal.signal(alarm, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(alarm, before)
