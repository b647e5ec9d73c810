"""Where a command's words go: results to stdout, everything else to stderr."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from attn_cli.errors import AttnError

QUIET_FOR = 0.5  # s; work that is done sooner needs no progress


def write(text: str) -> None:
    """Text to stdout. A reader that has gone away (`| head`) is no error: the rest is dropped."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        drop_stdout()
    except OSError as error:
        drop_stdout()
        raise AttnError(f"cannot write to standard output: {error.strerror}") from error


def encoding() -> str:
    """The encoding of stdout."""
    return sys.stdout.encoding or "utf-8"


def say(line: str) -> None:
    """One line to stderr; where that is gone, to nobody."""
    with suppress(OSError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def drop_stdout() -> None:
    """Send what is still in stdout's buffer nowhere, so that closing it raises nothing."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def open_closed_streams() -> None:
    """Standard streams that the caller closed (`>&-`) become the null device.

    Otherwise Python has None in their place, and the next file that is opened takes their number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # It lives as long as the process.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def escape_unencodable() -> None:
    """Let stdout and stderr escape what their encoding lacks instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


class Progress:
    """A line on stderr that says how far a long run is; silent where stderr is no terminal."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock, self.started = clock, clock()
        self.shown = False

    def __call__(self, done: int, total: int) -> None:
        """Shows `done` of `total` once the work has taken a while."""
        if sys.stderr.isatty() and self.clock() - self.started > QUIET_FOR:
            sys.stderr.write(f"\rcomputing {done:,} of {total:,}")
            sys.stderr.flush()
            self.shown = True

    def busy(self, words: str) -> None:
        """Shows what is being done, where nobody can say how far it is."""
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{words}\x1b[K")
            sys.stderr.flush()
            self.shown = True

    def clear(self) -> None:
        """Takes the line away."""
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self.shown = False
