"""Running the formula on a dump: its stages take the place of those that the formula makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.onestep import Arithmetic as Rounding
from attn_cli.core.rounding import accumulator
from attn_cli.diagnosis.dumped.case import Case
from attn_cli.diagnosis.formula.steps import STEPS
from attn_cli.diagnosis.formula.work import Arithmetic, Steps, Work
from attn_cli.errors import InputError

Array = NDArray[Any]

# After which step of the formula a stage is there, and under which name its work has it.
MADE: Mapping[str, tuple[tuple[str, str], ...]] = {
    "split": (("q", "q"), ("k", "k"), ("v", "v")),
    "rotate": (("q_rotated", "q"), ("k_rotated", "k")),
    "scores": (("scores", "scores"),),
    "scale": (("scaled", "scores"),),
    "cap": (("softcapped", "scores"),),
    "bias": (("biased", "scores"),),
    "hide": (("masked", "scores"),),
    "softmax": (("weights", "weights"),),
    "late": (("weights", "weights"),),
    "mix": (("context", "context"),),
    "merge": (("merged", "merged"),),
    "out": (("output", "output"),),
    "result": (("context", "output"),),
}


@dataclass(frozen=True, slots=True, eq=False)
class Predicted:
    """What the formula shows: stage → the arrays that a program may show by that name.

    Weights may be shown before or after something is done to them, or others given back; `loose`
    (B, H, L) are the rows that see nothing.
    """

    stages: Mapping[str, tuple[Array, ...]]
    loose: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Program:
    """How it is computed: exactly, or with `rng` as some program in `dtype`.

    `units` are the last digits with which it writes stages; those that it lacks stand as they are.
    """

    dtype: str = "float64"
    rng: np.random.Generator | None = None
    units: Mapping[str, float] | None = None

    def received(self, stage: str, array: Array) -> Array:
        """A stage out of the dump, moved in runs with `rng` by what writing it may have lost."""
        rounding = Rounding(self.dtype, self.rng)
        moved = rounding.received(stage, array)
        unit = (self.units or {}).get(stage, 0.0)
        if self.rng is not None and unit:
            moved = moved + self.rng.uniform(-unit / 2, unit / 2, moved.shape)
        return moved

    def rounded(self, array: Array) -> Array:
        return array if self.rng is None else Rounding(self.dtype, self.rng).rounded(array)

    @property
    def arithmetic(self) -> Arithmetic:
        wide = "float64" if self.rng is None else np.dtype(accumulator(self.dtype)).name
        return Arithmetic(wide, self.rng)


def predict(
    case: Case, replaced: Steps, given: Mapping[str, Array], program: Program = Program()
) -> Predicted | None:
    """Every stage that the formula with `replaced` steps makes; None where it fails.

    `given` stages take the place of the formula's own as soon as those are made.
    """
    work = Work(case.question, case.setting, program.arithmetic)
    found: dict[str, tuple[Array, ...]] = {}
    with np.errstate(all="ignore"):
        try:
            for name, step in {**STEPS, **replaced}.items():
                step(work)
                for stage, attribute in MADE.get(name, ()):
                    _keep(work, stage, attribute, given, found, program)
        except (ValueError, IndexError, InputError):
            return None
    if work.returned is not None:
        found["weights"] = (*found.get("weights", ()), work.returned)
    return Predicted(found, _loose(work, case))


def _keep(
    work: Work,
    stage: str,
    attribute: str,
    given: Mapping[str, Array],
    found: dict[str, tuple[Array, ...]],
    program: Program,
) -> None:
    """Notes a stage, rounded as the program does, and puts the dump's own in its place."""
    array = getattr(work, attribute)
    if array is None or (stage == "context" and array.ndim != 4):  # heads that are merged already
        return
    array = program.rounded(array)
    found[stage] = (*found.get(stage, ()), array)
    if stage in given:
        array = program.received(stage, given[stage])
    setattr(work, attribute, array)


def _loose(work: Work, case: Case) -> NDArray[np.bool_]:
    rows, shape = work.loose, case.question.shape[:3]
    if rows is None or rows.shape != shape:
        return case.question.empty
    loose: NDArray[np.bool_] = rows | case.question.empty
    return loose
