"""Shapes of a full view: from the projections to the output, a model's modules around attention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from attn_cli.core.results import RunResult
from attn_cli.core.steps import K_AXES, Q_AXES
from attn_cli.core.trace import ALL_STAGES, StageShape

if TYPE_CHECKING:
    from attn_cli.models.hf.around import ModuleStep
    from attn_cli.workflows.model.full import Question


def shapes_around(question: Question, run: RunResult) -> tuple[StageShape, ...]:
    """The steps of one batch item with all heads of the call."""
    before = [_module(step, question) for step in question.before if step.kind != "Embedding"]
    after = [_module(step, question) for step in question.after]
    own = [_own(question, step) for step in run.shapes if _shown(step.stage, question.seen)]
    return (*_entering(question), *before, *own, *after)


def _shown(stage: str, seen: bool) -> bool:
    """The context is the last: what a model makes of it is the modules' business."""
    return stage in ("masked", "weights") if seen else stage != "output"


def _own(question: Question, step: StageShape) -> StageShape:
    """A step of the run, which had one head, with those of the call and the model's precision."""
    facts = question.call.facts
    heads = facts.kv_heads if step.stage in ("k", "v") else facts.heads
    given = "as attention is given it"
    words = {"q": given, "k": given, "v": given}
    if facts.position_bias:
        words["biased"] = "+ position bias"
    if question.seen:
        hides = "hides nothing" if question.mask.expression == "none" else step.formula
        words["masked"] = f"seen at the softmax, {hides}"
    return replace(
        step,
        shape=(step.shape[0], heads or facts.heads, *step.shape[2:]),
        formula=words.get(step.stage, step.formula),
        dtype=question.call.dtypes.get(step.stage, step.dtype)
        if step.stage in words
        else step.dtype,
    )


def _entering(question: Question) -> Iterator[StageShape]:
    """The vectors that the first projection is given."""
    if question.before and len(question.before[0].given) == 3:
        first = question.before[0]
        axes = ("batch", "query", "d_model")
        yield StageShape("x", axes, _one(first.given), first.dtype, "what comes into attention")


def _module(step: ModuleStep, question: Question) -> StageShape:
    """One module; a 4-D output has a head axis, and a name that a stage has is its weight's."""
    facts, shape = question.call.facts, _one(step.made)
    if len(shape) == 4 and shape[1] == 1:  # no head axis yet, or one for all heads
        shape = (shape[0], *shape[2:])
    over_keys = step.name.rpartition(".")[2].lower().startswith(("k", "v"))
    length = "key" if over_keys or facts.queries not in shape else "query"
    axes: tuple[str, ...]
    if len(shape) == 4 and shape[1] in (facts.heads, facts.kv_heads):
        axes = (*(Q_AXES if length == "query" else K_AXES)[:3], "d_k")
    elif len(shape) == 4:
        axes = ("batch", length, "head", "d_k")
    elif len(shape) == 3:
        axes = ("batch", length, "out")
    elif len(shape) == 2:
        axes = (length, "out")
    else:
        axes = tuple(f"axis {number}" for number in range(len(shape)))
    formula = f"{step.given[-1]} → {step.made[-1]}" if step.linear else step.kind
    name = f"{step.name}.weight" if step.name in ALL_STAGES else step.name
    return StageShape(name, axes, shape, step.dtype, formula)


def _one(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with one batch item."""
    return (1, *shape[1:]) if len(shape) > 2 else shape
