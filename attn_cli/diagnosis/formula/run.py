"""Running the formula with steps replaced, and the budget that such a run has by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.budget import FACTOR, ULPS
from attn_cli.core.rounding import precision
from attn_cli.diagnosis.formula.steps import STEPS
from attn_cli.diagnosis.formula.work import Arithmetic, Setting, Steps, Work
from attn_cli.diagnosis.question import Question
from attn_cli.errors import InputError

Array = NDArray[Any]

RUNS = 4  # in orders of their own
ROOM = "float32"  # what rounding the code is allowed, whatever precision it runs in


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What the formula gives: `failed` where its shapes do not fit, as the code's would not.

    `output` has the shape of the question's stage, `weights` (B, H, L, S) or None where no such map
    is given back. `loose` (B, H, L) are the rows that see nothing.
    """

    output: Array | None = None
    weights: Array | None = None
    loose: Array | None = None
    failed: bool = False


def run(
    question: Question,
    setting: Setting,
    replaced: Steps | None = None,
    arithmetic: Arithmetic = Arithmetic(),
) -> Outcome:
    """The formula on a question, with the steps of `replaced` in the place of the right ones."""
    work = Work(question, setting, arithmetic)
    steps = STEPS if not replaced else {**STEPS, **replaced}
    with np.errstate(all="ignore"):
        try:
            for step in steps.values():
                step(work)
        except (ValueError, IndexError, InputError):
            return Outcome(failed=True)
    expected = right_shape(question)
    if work.output is None or work.output.shape != expected:
        return Outcome(failed=True)
    weights = work.returned
    if weights is not None and weights.shape != question.shape:
        weights = None
    return Outcome(work.output, weights, _rows(work.loose, question))


def right_shape(question: Question) -> tuple[int, ...]:
    """The shape of the answer: (B, H, L, d_v), or (B, L, d) of token vectors."""
    B, H, L, _ = question.shape
    width = int(question.inputs.v.shape[-1])
    if question.stage == "context":
        return B, H, L, width
    layer = question.inputs.output_projection
    if layer is None or layer.w_o is None:
        return B, L, H * width
    return B, L, int(layer.w_o.shape[1])


def _rows(loose: Array | None, question: Question) -> Array:
    B, H, L, _ = question.shape
    if loose is None or loose.shape != (B, H, L):
        return np.zeros((B, H, L), dtype=bool)
    return loose


def budgets(
    question: Question, setting: Setting, replaced: Steps, exact: Outcome
) -> Mapping[str, Array]:
    """How far rounding in float32 takes this very formula on this question, as core.budget does it.

    Three times the largest error of runs in drawn orders, plus 2 ulp of the largest value; axes of
    1 to broadcast over output (and weights, where there are any).
    """
    errors: dict[str, Array] = {}
    for seed in range(RUNS):
        arithmetic = Arithmetic(ROOM, np.random.default_rng(seed))
        plain = run(question, setting, replaced, arithmetic)
        for name in ("output", "weights"):
            right, came = getattr(exact, name), getattr(plain, name)
            if right is not None and came is not None:
                with np.errstate(invalid="ignore"):
                    error = _largest(came.astype(np.float64) - right)
                errors[name] = np.maximum(errors.get(name, 0.0), error)
    return {
        name: FACTOR * error + ULPS * precision(ROOM).ulp(_largest(getattr(exact, name)))
        for name, error in errors.items()
    }


def _largest(array: Array) -> Array:
    """The largest finite size over the last two axes, which are kept."""
    sizes = np.abs(np.where(np.isfinite(array), array, 0))
    largest: Array = sizes.max((-2, -1), keepdims=True)
    return largest
