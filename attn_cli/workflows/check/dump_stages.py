"""Stages of one dump, each recomputed from the one before it as the file holds that."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.difference import SideTally, Tally, Tolerance
from attn_cli.core.engine import Progress
from attn_cli.core.inputs import FINITE_FILL
from attn_cli.core.onestep import HIDDEN, Rule, next_stages
from attn_cli.core.slicing import one_head, one_item
from attn_cli.core.step_budget import fault_free
from attn_cli.recognize.stage_layout import OF_KEYS, WITHOUT_HEADS
from attn_cli.workflows.diff_conventions import cut
from attn_cli.workflows.diff_engines import WHOLE
from attn_cli.workflows.diff_question import Asked, side_rule
from attn_cli.workflows.stage_axes import AXES

Array = NDArray[Any]
Stages = Mapping[str, Array]
BY_ROW = ("masked", "lse", "weights", "context")  # whose rows nobody defines where they are empty
RUNS = 3  # with other last digits
FACTOR = 3.0  # as the budget has it


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """The stages of a file and how they are to be read.

    `scaled`: its scores hold the scale. `units` are the last digits of stages written short.
    """

    stages: Stages
    dtype: str
    scaled: bool = False
    units: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """One part of the stages with its rule: item at[0], from head at[1] on."""

    at: tuple[int, int]
    stages: dict[str, Array]
    rule: Rule
    group: int = 1
    only: tuple[str, ...] | None = None


def hold_stages(
    held: Held, question: Asked, tolerance: Tolerance, *, progress: Progress | None = None
) -> dict[str, Tally]:
    """One tally for every stage that those before it make: left is the file, right what they make.

    Rows that see nothing are left out: what they hold is a convention.
    """
    tallies: dict[str, Tally] = {}
    batch = question.inputs.shape[0]
    for part in _parts(held, question):
        for name, (made, budget) in fault_free(part.rule, part.stages, dtype=held.dtype).items():
            if part.only is not None and name not in part.only:
                continue
            if name in OF_KEYS and part.at[1] % part.group:
                continue
            array = part.stages[name]
            made = _as_held_where_empty(name, array, made, part)
            if not np.array_equal(array, made, equal_nan=True):
                budget = budget + _written(part, name, made, held)
            if name not in tallies:
                tallies[name] = _tally(name, held)
            at = (part.at[0], part.at[1] // part.group) if name in OF_KEYS else part.at
            tallies[name].compare(at, array, made, tolerance.allowed(budget, made))
        if progress:
            progress(part.at[0] + 1, batch)
    return tallies


def _tally(name: str, held: Held) -> Tally:
    shape = held.stages[name].shape
    return Tally(name, AXES[name], SideTally(held.dtype, shape), SideTally("float64", shape))


def _parts(held: Held, question: Asked) -> Iterator[_Part]:
    """Whole items, or where their scores are large head by head, and then what joins the heads."""
    inputs = question.inputs
    batch, heads, queries, keys = inputs.shape
    group = heads // inputs.kv_heads
    for b in range(batch):
        item = _rule(question, held, one_item(inputs, b))
        if heads == 1 or heads * queries * keys <= WHOLE:
            yield _Part((b, 0), _hiding(cut(held.stages, b, None, group), item), item)
            continue
        for h in range(heads):
            rule = _rule(question, held, one_head(inputs, b, h))
            yield _Part((b, h), _hiding(cut(held.stages, b, h, group), rule), rule, group)
        names = (*WITHOUT_HEADS, "context")
        joined = {n: a[b : b + 1] for n, a in held.stages.items() if n in names}
        yield _Part((b, 0), joined, item, only=WITHOUT_HEADS)


def _rule(question: Asked, held: Held, part: Any) -> Rule:
    """How the file goes from stage to stage: a finite fill of the mask hides its key."""
    rule = side_rule(question, part, scores_scaled=held.scaled)
    if rule.additive is None:
        return rule
    hidden = rule.additive <= FINITE_FILL
    added = np.where(hidden, 0, rule.additive)
    seen = ~hidden if rule.visible is None else rule.visible & ~hidden
    return dataclasses.replace(rule, visible=seen, additive=added if added.any() else None)


def _hiding(stages: dict[str, Array], rule: Rule) -> dict[str, Array]:
    """Masked scores with −∞ at hidden keys, where the file has a very negative number."""
    masked = stages.get("masked")
    if masked is not None and rule.visible is not None:
        stages["masked"] = np.where(~rule.visible & (masked <= HIDDEN), -np.inf, masked)
    return stages


def _as_held_where_empty(name: str, array: Array, made: Array, part: _Part) -> Array:
    """What is made, but the file's own where a row sees nothing, by the mask or as it was left."""
    empty = _empty(name, part)  # (1, H, L)
    if empty is None:
        return made
    if name == "lse":
        return np.where(empty, array, made)
    if name in BY_ROW:
        return np.where(empty[..., None], array, made)
    if name in ("merged", "output"):
        return np.where(np.asarray(empty.any(1))[..., None], array, made)
    return made


def _empty(name: str, part: _Part) -> NDArray[np.bool_] | None:
    """The rows that see nothing; None where all see something."""
    visible, masked = part.rule.visible, part.stages.get("masked")
    empty = None if visible is None else np.asarray(~visible.any(-1))
    if masked is not None and name in ("lse", "weights"):
        left = np.asarray(np.isneginf(masked).all(-1))
        empty = left if empty is None else empty | left
    return empty


def _written(part: _Part, name: str, made: Array, held: Held) -> Array | float:
    """How far a stage may be off because it and those before it are written with few digits."""
    if not held.units:
        return 0.0
    errors = np.zeros((*made.shape[:-2], 1, 1))
    for run in range(RUNS):
        rng = np.random.default_rng(run)
        moved = {
            stage: array + rng.uniform(-0.5, 0.5, array.shape) * held.units.get(stage, 0.0)
            for stage, array in part.stages.items()
        }
        again = next_stages(part.rule, moved)[name]
        both = np.isfinite(again) & np.isfinite(made)
        gap = np.abs(np.where(both, again, 0) - np.where(both, made, 0))
        errors = np.maximum(errors, gap.max((-2, -1), keepdims=True))
    return FACTOR * errors + held.units.get(name, 0.0)
