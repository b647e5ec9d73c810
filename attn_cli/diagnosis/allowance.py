"""Allowance: the time that all calls of somebody's code may take together, and what it left out."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

SECONDS = 60.0

# The part of the time after which each step of a check asks nothing more.
TRIALS = 0.4
INTERVIEW = 0.65
EVIDENCE = 0.8
EXPLAINING = 0.9
BEHAVIOUR = 1.0


class TimeUp(Exception):
    """The trial calls took their part of the time, and how the code is called is not known yet."""


@dataclass(slots=True)
class Allowance:
    """`seconds` of the clock from when it is made; `left_out` is what was not tried for want of
    time, each in words and once."""

    seconds: float = SECONDS
    started: float = field(default_factory=lambda: time.monotonic())
    left_out: list[str] = field(default_factory=list)

    def over(self, part: float) -> bool:
        """Whether that part of the time is gone."""
        return self.left(part) <= 0

    def left(self, part: float) -> float:
        """The seconds until that part of the time is gone; negative where it is."""
        return self.started + part * self.seconds - time.monotonic()

    def leave_out(self, what: str) -> None:
        """Takes down what is not tried."""
        if what not in self.left_out:
            self.left_out.append(what)

    def spent(self, part: float, what: str) -> bool:
        """Whether that part of the time is gone; then `what` is taken down as left out."""
        if not self.over(part):
            return False
        self.leave_out(what)
        return True
