"""Bar: how far a long run over rows is, how fast it goes and how long it will still take."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from attn_cli.commands.output import QUIET_FOR, say

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

EVERY = 0.1  # s between two looks of the bar


class Bar:
    """A bar on stderr; silent where stderr is no terminal and where the work is soon done.

    It draws itself only when it is told how far the run is, so nothing runs beside the work.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock, self.started, self.drawn = clock, clock(), 0.0
        self.done = self.total = 0
        self._bar: tuple[Progress, TaskID] | None = None

    def __call__(self, done: int, total: int) -> None:
        """Shows `done` of `total` rows once the work has taken a while."""
        self.done, self.total, now = done, total, self.clock()
        if not sys.stderr.isatty() or now - self.started <= QUIET_FOR:
            return
        if self._bar is None:
            self._bar = _bar(total)
        if now - self.drawn >= EVERY:
            self.drawn = now
            progress, task = self._bar
            words = pace(done, total, now - self.started)
            progress.update(task, completed=done, pace=words, refresh=True)

    def clear(self) -> None:
        """Takes the bar away."""
        if self._bar is not None:
            self._bar[0].stop()
            self._bar = None

    def interrupted(self) -> None:
        """Says how far the run was when it was stopped."""
        self.clear()
        after = f" after {self.done:,} of {self.total:,} rows" if self.total else ""
        say(f"attn: interrupted{after}; nothing was written")


def pace(done: int, total: int, seconds: float) -> str:
    """The rate so far, and the time left at that rate.

    >>> pace(2_000, 10_000, 4.0)
    '500 rows/s  0:00:16 left'
    """
    if done <= 0 or seconds <= 0:
        return ""
    rate = done / seconds
    left = round((total - done) / rate)
    return f"{rate:,.0f} rows/s  {left // 3600}:{left // 60 % 60:02}:{left % 60:02} left"


def _bar(total: int) -> tuple[Progress, TaskID]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    progress = Progress(
        BarColumn(bar_width=24),
        TextColumn("{task.completed:,} of {task.total:,} rows"),
        TextColumn("{task.fields[pace]}"),
        console=Console(stderr=True, legacy_windows=False),
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    task = progress.add_task("", total=total, pace="")
    progress.start()
    return progress, task
