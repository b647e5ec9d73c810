"""Ranks: which of the processes that torchrun started for one run this one is."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Place:
    """Process number `rank` of `size`, the `local`-th of its machine; (0, 1, 0) is alone."""

    rank: int = 0
    size: int = 1
    local: int = 0

    @property
    def shared(self) -> bool:
        """Whether there are several processes."""
        return self.size > 1

    def device(self, name: str) -> str:
        """The device that is meant: every process of a machine has a GPU of its own."""
        return f"cuda:{self.local}" if self.shared and name == "cuda" else name


def place() -> Place:
    """What torchrun says in the environment; alone where it did not start this process."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return Place()
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    told = (os.environ.get(name, alone) for name, alone in zip(names, "010", strict=True))
    return Place(*map(int, told))


class PartDone(Exception):
    """Raised in a process that has done its part and handed it over: the first one has the rest."""


class Ranks(Protocol):
    """The processes of one run, as the work that they share sees them."""

    place: Place

    def beat(self, done: int) -> int:
        """Tells the others how many rows this process has done, and gives what all have together.

        Raises where the run has been given up.
        """
        ...

    def hand_over(self, parts: list[dict[str, Array]]) -> None:
        """Gives the first process its parts; raises PartDone."""
        ...

    def collect(
        self, shapes: Callable[[int], list[dict[str, tuple[int, ...]]]], like: dict[str, Array]
    ) -> list[list[dict[str, Array]]]:
        """The parts of every other process, of which `shapes` (rank) are expected.

        Their arrays have the dtypes of those in `like`. Raises AttnError where one has failed.
        """
        ...
