"""Parts: both sides of a comparison held against each other, one (batch, head) after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.compare import compare
from attn_cli.core.difference import Tally, Tolerance
from attn_cli.core.onestep import Rule
from attn_cli.core.results_diff import SIDES, Side
from attn_cli.core.step_budget import fault_free

Array = NDArray[Any]
Stages = Mapping[str, Array]


class Question(Protocol):
    """What one part asks: its float64 answer, and how far right code may be from it."""

    @property
    def oracle(self) -> Stages: ...

    def budget(self, dtype: str) -> Stages: ...


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One part of both sides: item `at[0]`, from head `at[1]` on. Arrays are (1, H, L, ·).

    `rules` say how each side goes from stage to stage; `derived` names the stages of a side that
    were made for it and do not count as its own.
    """

    at: tuple[int, int]
    stages: Mapping[Side, Stages]
    question: Question
    rules: Mapping[Side, Rule]
    derived: Mapping[Side, frozenset[str]]
    group: int = 1  # query heads that read one key/value head
    only: frozenset[str] | None = None  # compare these alone; the others are what they are made of
    base: float = 1.0  # what the oracle's scores hold, as `Rule.factor`
    stored: Mapping[Side, Stages] = field(default_factory=dict)  # as the files have them

    def compared(self, side: Side, name: str) -> Array:
        """What is held against the other side: the stage as its file has it."""
        return self.stored.get(side, {}).get(name, self.stages[side][name])

    def factor(self, side: Side) -> float:
        """What a side's scores are by its convention, in the oracle's."""
        return self.rules[side].factor / self.base


OF_KEYS = ("k", "v", "k_rotated")


def hold(part: Part, tallies: Mapping[str, Tally], tolerance: Tolerance) -> None:
    """Compares one part: side with side, each with the oracle, and each with its own steps."""
    chosen = {
        name: tally
        for name, tally in tallies.items()
        if (part.at[1] % part.group == 0 or name not in OF_KEYS)
        and (part.only is None or name in part.only)
        and all(name in part.stages[side] for side in SIDES)
    }
    for name, tally in chosen.items():
        left, right = part.compared("left", name), part.compared("right", name)
        measured = sum(_budgets(part, name, tally), start=np.zeros(()))
        tally.compare(_at(part, name), left, right, tolerance.allowed(measured, right))
        for side in SIDES:
            _hold_to_oracle(part, side, name, tally, tolerance)
    for side in SIDES:
        _blame(part, side, chosen, tolerance)


def _at(part: Part, name: str) -> tuple[int, int]:
    """The first head of a stage, in the stage's own heads."""
    item, head = part.at
    return (item, head // part.group) if name in OF_KEYS else (item, head)


def _budgets(part: Part, name: str, tally: Tally) -> Iterator[Array]:
    for side in SIDES:
        budget = part.question.budget(tally.side(side).dtype)
        if name in budget:
            factor = abs(part.factor(side)) if name == "scores" else 1.0
            yield budget[name] * factor


def _hold_to_oracle(part: Part, side: Side, name: str, tally: Tally, tolerance: Tolerance) -> None:
    array, right = part.stages[side][name], part.question.oracle.get(name)
    if right is None or right.shape != array.shape:
        return
    of_side = tally.side(side)
    measured = part.question.budget(of_side.dtype)[name]
    if name == "scores":
        right, measured = right * part.factor(side), measured * abs(part.factor(side))
    allowed = tolerance.allowed(measured, right)
    diff = compare(array, right, budget=allowed, dtype=of_side.dtype)
    of_side.hold(diff, float(np.max(allowed)))


def _blame(part: Part, side: Side, chosen: Mapping[str, Tally], tolerance: Tolerance) -> None:
    """Which stages are not what the side's own stage before them makes."""
    held = {
        name: array for name, array in part.stages[side].items() if name not in part.derived[side]
    }
    if not (held and chosen):
        return
    dtype = next(iter(chosen.values())).side(side).dtype
    for name, (made, budget) in fault_free(part.rules[side], held, dtype=dtype).items():
        if name in chosen:
            allowed = tolerance.allowed(budget, made)
            diff = compare(held[name], made, budget=allowed, dtype=dtype)
            chosen[name].side(side).blame(diff.verdict == "different")
