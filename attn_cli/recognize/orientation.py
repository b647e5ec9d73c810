"""Orientation: are matrices (out, in), as PyTorch's Linear keeps them, or (in, out)?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import get_args

from attn_cli.core.settings import WeightsLayout
from attn_cli.errors import InputError, MisfitError
from attn_cli.recognize.settings import Asked, option

AXES: Mapping[WeightsLayout, str] = {"out-in": "(out, in)", "in-out": "(in, out)"}
IN_AXIS: Mapping[WeightsLayout, int] = {"out-in": 1, "in-out": 0}


@dataclass(frozen=True, slots=True)
class Shaped:
    """A matrix by its name and shape; what goes into it is `into` wide, which is called `what`."""

    label: str
    shape: tuple[int, ...]
    into: int
    what: str

    @property
    def possible(self) -> tuple[WeightsLayout, ...]:
        """The layouts that its shape allows."""
        every: tuple[WeightsLayout, ...] = get_args(WeightsLayout)
        return tuple(layout for layout in every if self.shape[IN_AXIS[layout]] == self.into)

    def out(self, layout: WeightsLayout | None) -> int:
        """How many features come out of it; a square one makes as many either way."""
        return self.shape[1 - IN_AXIS[layout or "in-out"]]


def orientation(matrices: Iterable[Shaped], asked: Asked) -> WeightsLayout | None:
    """The one layout of all the matrices: as asked, else as their shapes say.

    None where every matrix is square and nothing was asked. Raises InputError where one fits
    neither way, or not the way the others do.
    """
    told = asked.choices.weights_layout
    decided: Shaped | None = None
    for matrix in matrices:
        if len(matrix.shape) != 2 or not matrix.possible:
            raise MisfitError(
                f"{matrix.label} has shape {matrix.shape}: expected a matrix with one axis of "
                f"{matrix.what} = {matrix.into}"
            )
        if told is not None and told not in matrix.possible:
            raise _told_wrong(matrix, told, asked)
        if len(matrix.possible) == 1:
            if decided is not None and decided.possible != matrix.possible:
                raise _disagree(decided, matrix)
            decided = matrix
    return told or (None if decided is None else decided.possible[0])


def undecided(matrix: Shaped) -> InputError:
    """The error where every matrix is square."""
    return InputError(
        f"{matrix.label} has shape {matrix.shape}, and every matrix is square: their shapes do not "
        "say whether they are (out, in) or (in, out)",
        hint=f"pass {option('weights_layout')} out-in (PyTorch's nn.Linear) or in-out (x · W, "
        "GPT-2's Conv1D)",
    )


def _told_wrong(matrix: Shaped, told: WeightsLayout, asked: Asked) -> InputError:
    axis = ("first", "second")[IN_AXIS[told]]
    return MisfitError(
        f"{matrix.label} has shape {matrix.shape}, and {asked.origin('weights_layout')} says "
        f"{AXES[told]}: expected a {axis} axis of {matrix.what} = {matrix.into}"
    )


def _disagree(a: Shaped, b: Shaped) -> InputError:
    ways = [f"{m.label} {m.shape} can only be {AXES[m.possible[0]]}" for m in (a, b)]
    return MisfitError(f"{ways[0]}, {ways[1]}: expected one way for all of them")
