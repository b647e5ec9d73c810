"""Probe: a question, why it is asked, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.budget import ULPS, measure_budget
from attn_cli.core.masks import BoolArray
from attn_cli.core.rounding import precision
from attn_cli.diagnosis.answers import Observed
from attn_cli.diagnosis.formula.run import ROOM, Outcome, budgets
from attn_cli.diagnosis.formula.work import Setting
from attn_cli.diagnosis.meaning import reference
from attn_cli.diagnosis.question import Question

Array = NDArray[Any]

# Large scores carry what a constant is off by, such as a table of angles kept in float32.
LARGE_ROOM = 8.0
SURE = 50.0  # budgets: what is farther off is wrong by whatever budget


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """A question and its purpose.

    `boundary` names the boundary case that it is: large scores, one token, …; None for ordinary
    ones. `needed`: the plan says that the code takes it, so that it must not fail. `dtype` is what
    the code is asked in, where that is not the usual one.
    """

    question: Question
    boundary: str | None = None
    needed: bool = True
    dtype: str | None = None

    @property
    def name(self) -> str:
        return self.question.name


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """A probe with its answer, and the right one.

    `right` and `weights` are the float64 reference, `budget` and `weights_budget` what rounding to
    float32 may move it by. `beyond` (B, H, L) are the judged rows whose output is farther off,
    `weights_beyond` those whose weights are.
    """

    probe: Probe
    observed: Observed
    right: Array
    weights: Array
    budget: Array
    weights_budget: Array
    beyond: BoolArray
    weights_beyond: BoolArray

    @property
    def question(self) -> Question:
        return self.probe.question

    @property
    def failed(self) -> bool:
        """Whether there is no output."""
        return self.observed.output is None

    @property
    def agrees(self) -> bool:
        return not (self.failed or self.beyond.any() or self.weights_beyond.any())

    @property
    def worst(self) -> float:
        """The largest distance from the right output in judged rows; inf for NaN."""
        if self.observed.output is None:
            return float("nan")
        gap = gaps(self.observed.output, self.right)[by_row(self.question.judged, self.right)]
        return float(gap.max(initial=0.0))


def see(probe: Probe, observed: Observed, setting: Setting) -> Seen:
    """The answer held against the reference."""
    question = probe.question
    trace = reference(question)
    right = trace[question.stage].astype(np.float64)
    weights = trace["weights"].astype(np.float64)
    room = LARGE_ROOM if probe.boundary == "large scores" else 1.0
    budget, weights_budget = (
        room * budget for budget in _budgets(question, setting, observed, right, weights)
    )
    beyond = np.zeros(question.shape[:3], dtype=bool)
    if observed.output is not None:
        apart = gaps(observed.output, right) > budget
        beyond = rows_of(apart, question) & question.judged
    weights_beyond = _weights_beyond(observed, weights, weights_budget, question)
    return Seen(probe, observed, right, weights, budget, weights_budget, beyond, weights_beyond)


def _budgets(
    question: Question, setting: Setting, observed: Observed, right: Array, weights: Array
) -> tuple[Array, Array]:
    """What rounding may do to output and weights, measured no more carefully than it matters.

    An answer within 2 ulp is right by any budget, and one that is 50 budgets off is wrong by any;
    between them, the budget is that of `attn diff`.
    """
    floor = ULPS * precision(ROOM).ulp(_largest(right))
    floors = floor, ULPS * precision(ROOM).ulp(_largest(weights))
    if observed.output is None or _clear(observed, right, weights, floors, sure=1.0):
        return floors
    exact = Outcome(right, weights)
    quick = budgets(question, setting, {}, exact)
    pair = quick["output"], quick["weights"]
    if _clear(observed, right, weights, pair, sure=SURE):
        return pair
    oracle = {question.stage: right, "weights": weights}
    measured = measure_budget(question.inputs, oracle, dtype=ROOM)
    return measured[question.stage], measured["weights"]


def _clear(
    observed: Observed, right: Array, weights: Array, pair: tuple[Array, Array], *, sure: float
) -> bool:
    """Whether every gap is within the budget or, with `sure` above 1, so many of them off."""
    parts = [(observed.output, right, pair[0])]
    if observed.weights is not None and observed.weights_kind == "heads":
        parts.append((observed.weights, weights, pair[1]))
    elif observed.weights is not None:
        mean = weights.mean(1, keepdims=True)
        parts.append((observed.weights, mean, pair[1].max(1, keepdims=True)))
    for came, said, budget in parts:
        assert came is not None
        gap = gaps(came, said)
        far = gap > sure * budget if sure > 1 else np.zeros(gap.shape, dtype=bool)
        if not ((gap <= budget) | far).all():
            return False
    return True


def _largest(array: Array) -> Array:
    """The largest finite size over the last two axes, which are kept."""
    sizes = np.abs(np.where(np.isfinite(array), array, 0))
    largest: Array = sizes.max((-2, -1), keepdims=True)
    return largest


def _weights_beyond(
    observed: Observed, weights: Array, budget: Array, question: Question
) -> BoolArray:
    if observed.weights is None:
        return np.zeros(question.shape[:3], dtype=bool)
    if observed.weights_kind == "mean":
        weights, budget = weights.mean(1, keepdims=True), budget.max(1, keepdims=True)
    apart = (gaps(observed.weights, weights) > budget).any(-1)
    return np.broadcast_to(apart, question.shape[:3]) & question.judged


def gaps(a: Array, b: Array) -> Array:
    """|a − b|, 0 where both are NaN or the same infinity, inf where one of them alone is."""
    with np.errstate(all="ignore"):
        gap = np.abs(a - b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isnan(gap), np.inf, gap))


def rows_of(flags: Array, question: Question) -> BoolArray:
    """Flags over an output, (B, H, L, d) or (B, L, d), as (B, H, L): is any of a row set?"""
    rows = np.asarray(flags.any(-1))
    if rows.ndim == 2:
        rows = rows[:, None]
    return np.broadcast_to(rows, question.shape[:3])


def by_row(rows: BoolArray, output: Array) -> BoolArray:
    """(B, H, L) over an output's elements; rows of merged heads count where all their heads do."""
    if output.ndim == 3:
        rows = np.asarray(rows.all(1))
    return np.broadcast_to(rows[..., None], output.shape)
