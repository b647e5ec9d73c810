"""Layers: the result of one attention run, put in its place in a model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from attn_cli.core.findings import Finding
from attn_cli.core.results import RunResult
from attn_cli.core.steps import X_AXES
from attn_cli.core.trace import EVERY_STAGE, Stage, StageShape, Trace
from attn_cli.models.passage import Passage
from attn_cli.models.stream import Step
from attn_cli.workflows.selection import narrowed


def in_model(result: RunResult, passage: Passage, values: Iterable[str]) -> RunResult:
    """The result with its layer's number, and the steps around attention among its own.

    `values` names the stages whose numbers were asked for.
    """
    number = passage.number
    trace = trace_in_model(result.trace, passage)
    asked = {name: trace.stages[name] for name in values if name in trace.stages}
    steps = {name: stage for name, stage in asked.items() if name not in result.values}
    shown = {name: narrowed(stage, result.chosen) for name, stage in steps.items()}
    every = {**shown, **result.values}
    return replace(
        result,
        shapes=trace.shapes,
        rows=tuple(replace(row, layer=number) for row in result.rows),
        shown_rows=tuple(
            replace(shown, row=replace(shown.row, layer=number)) for shown in result.shown_rows
        ),
        heads=tuple(replace(head, layer=number) for head in result.heads),
        views=tuple(replace(view, layer=number) for view in result.views),
        spread=None if result.spread is None else result.spread.of_layer(number),
        findings=trace.findings,
        values={name: every[name] for name in EVERY_STAGE if name in every},
        trace=trace,
    )


def trace_in_model(trace: Trace, passage: Passage) -> Trace:
    """The trace with the steps around its attention, and its layer's number in what is said."""
    dtype = trace.provenance.dtype
    steps = {step.stage: _stage(step, dtype) for step in (*passage.before, *passage.after)}
    stages = {**trace.stages, **steps}
    return replace(
        trace,
        stages={name: stages[name] for name in EVERY_STAGE if name in stages},
        shapes=tuple(_shapes(trace.shapes, passage, dtype)),
        findings=tuple(_placed(finding, passage.number) for finding in trace.findings),
    )


def _stage(step: Step, dtype: str) -> Stage:
    axes = (*X_AXES[:2], "vocabulary") if step.stage == "logits" else X_AXES
    return Stage(step.array, axes, dtype)


def _shapes(taken: Iterable[StageShape], passage: Passage, dtype: str) -> Iterable[StageShape]:
    """The shape trace from what comes into the layer to what goes on; x comes from here."""
    for step in passage.before:
        yield _shape(step, passage.number, dtype)
    for shape in taken:
        if shape.stage != "x":
            yield replace(shape, layer=passage.number)
    for step in passage.after:
        yield _shape(step, passage.number, dtype)


def _shape(step: Step, number: int, dtype: str) -> StageShape:
    axes = _stage(step, dtype).axes
    return StageShape(step.stage, axes, step.array.shape, dtype, step.formula, number)


def _placed(finding: Finding, number: int) -> Finding:
    return replace(finding, where=replace(finding.where, layer=number))
