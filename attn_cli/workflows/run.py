"""run: attention on an input, step by step, with everything that there is to say of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from attn_cli import formats
from attn_cli.checks.fine import fine
from attn_cli.checks.masking import HiddenCount
from attn_cli.checks.rows import sum_tolerance
from attn_cli.checks.run_checks import RunChecks
from attn_cli.core.dump import Dump
from attn_cli.core.engine import Ask, Engine, Progress, Watcher, require
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.memory import available_bytes, require_dense
from attn_cli.core.results import RunResult
from attn_cli.core.settings import Choices
from attn_cli.core.trace import SCORE_STAGES, StageShape, Trace
from attn_cli.engines import ENGINES
from attn_cli.errors import InputError
from attn_cli.models import is_model
from attn_cli.recognize import understand
from attn_cli.recognize.one_array import load_array
from attn_cli.recognize.reading import Reading
from attn_cli.stats import STATISTICS
from attn_cli.workflows.one_kind import refuse_text
from attn_cli.workflows.selection import Selection, checked, narrowed, select
from attn_cli.workflows.stages import check_stages, not_shown, taken_stages
from attn_cli.workflows.tables import head_rows, listed_rows, shown_rows
from attn_cli.workflows.views import ViewBuilder

if TYPE_CHECKING:
    from attn_cli.core.model_results import ModelResult

PARTS = ("shapes", "weights", "rows", "heads", "findings", "values", "predictions")
DEFAULT_PARTS = frozenset(PARTS) - {"values"}
ROW_PARTS = frozenset({"weights", "rows", "heads"})  # what an engine without weights lacks
TOP = 5  # best keys of each row


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What `attn run` was asked for; `parts` says what will be shown, so that no more is made."""

    choices: Choices = field(default_factory=Choices)
    engine: str = "numpy"
    dtype: str = "float64"
    device: str = "cpu"
    context: str | None = None
    weights: str | None = None
    text: str | None = None  # what a model reads
    layers_shown: tuple[int, ...] | None = None
    heads_shown: tuple[int, ...] | None = None
    queries_shown: tuple[int, ...] | None = None
    items_shown: tuple[int, ...] | None = None
    values: tuple[str, ...] = ()
    parts: frozenset[str] = DEFAULT_PARTS
    all_rows: bool = False
    save: str | None = None
    force: bool = False


def run_file(
    source: str,
    options: RunOptions,
    *,
    stdin: BinaryIO | None = None,
    progress: Progress | None = None,
) -> RunResult | ModelResult:
    """Read `source` ("-" for standard input), run attention on it and say all that was asked for.

    A file that holds a model is run layer by layer on `options.text`. Raises InputError or
    UnsupportedError; with `save` the trace is written, whole or not at all.
    """
    dump = formats.read(source, stdin=stdin)
    if is_model(dump):
        from attn_cli.workflows.run_model import run_model

        return run_model(dump, options, progress=progress)
    _check_no_model(dump, options)
    reading = read_dump(
        dump, options.choices, context=options.context, weights=options.weights, stdin=stdin
    )
    return run_reading(reading, options, progress=progress)


def _check_no_model(dump: Dump, options: RunOptions) -> None:
    """InputError for what only a model has."""
    refuse_text(dump, options.text)
    checked("layer", "--layer", options.layers_shown, 1)
    if "predictions" in options.parts and not options.parts >= DEFAULT_PARTS:  # asked for by name
        raise InputError(f"{dump.source} holds no model, so nothing is predicted")


def read_dump(
    dump: Dump,
    choices: Choices,
    *,
    context: str | None = None,
    weights: str | None = None,
    stdin: BinaryIO | None = None,
) -> Reading:
    """A file's content understood.

    `context` names the file of a second sequence, `weights` that of a layer's projections.
    """
    second = None if context is None else formats.read(context, stdin=stdin)
    layer = None if weights is None else formats.read(weights, stdin=stdin)
    return understand(dump, choices, context=second, weights=layer, load=load_array)


def run_reading(
    reading: Reading,
    options: RunOptions,
    *,
    keep: frozenset[str] = frozenset(),
    progress: Progress | None = None,
) -> RunResult:
    """Run attention on what was read and gather what `options` asks for.

    `keep` names stages that the trace holds beside those that are asked for.
    """
    inputs = reading.inputs
    selection = select(
        inputs,
        items=options.items_shown,
        heads=options.heads_shown,
        queries=options.queries_shown,
    )
    if options.save is not None:
        from attn_cli.workflows.saving import check_destination

        check_destination(options.save, force=options.force)
    views = ViewBuilder(inputs, selection)
    checks = RunChecks(inputs, file_precision=reading.summary.precision)
    trace = compute(reading, options, checks, keep=keep, views=views, progress=progress)
    if options.save is not None:
        from attn_cli.workflows.saving import save_trace

        save_trace(options.save, reading, trace, force=options.force)
    return _result(reading, options, selection, trace, views)


def compute(
    reading: Reading,
    options: RunOptions,
    checks: RunChecks,
    *,
    keep: frozenset[str] = frozenset(),
    views: ViewBuilder | None = None,
    watch: Mapping[str, Watcher] | None = None,
    progress: Progress | None = None,
) -> Trace:
    """The trace with its findings; holds the stages that `keep`, `values` and `save` name.

    `watch` names who else looks at a stage as it passes by.
    """
    inputs = reading.inputs
    watchers = checks.watch
    for stage, watcher in (watch or {}).items():
        watchers.setdefault(stage, []).append(watcher)
    if views is not None and "weights" in options.parts:
        watchers["weights"].append(views)
    wanted = keep | frozenset(options.values)
    can = ENGINES[options.engine].can
    if options.save is not None:
        wanted |= taken_stages(inputs) & can.shows(inputs)
    check_stages(inputs, wanted)
    rows = "weights" in can.shows(inputs) or bool(_named(options) & ROW_PARTS)
    ask = Ask(
        keep=wanted,
        watch=watchers,
        stats=[STATISTICS[name] for name in STATISTICS] if rows else (),
        top=TOP if rows else 0,
        cosine=rows,
        dtype=options.dtype,
        device=options.device,
        progress=progress,
    )
    trace = engine_for(ask, options.engine, inputs).run(inputs, ask)
    said = (*not_shown(options.engine, can, inputs), *trace.findings, *checks.findings(trace))
    made_from = dataclasses.replace(
        trace.provenance, input_sha256=reading.summary.sha256, seed=reading.settings.seed
    )
    return dataclasses.replace(
        trace,
        shapes=_with_hidden_counts(trace.shapes, reading, checks.hidden),
        provenance=made_from,
        findings=(*reading.findings, *said),
    )


def _named(options: RunOptions) -> frozenset[str]:
    """The parts that were asked for by name; none where it is the whole screen, or JSON."""
    return frozenset() if options.parts >= DEFAULT_PARTS else options.parts


def engine_for(ask: Ask, name: str, inputs: AttentionInputs) -> Engine:
    """The engine called `name`; raises where it cannot do what is asked or has no room for it."""
    engine = ENGINES[name]
    require(
        engine, inputs, ask, others=lambda: [ENGINES[other] for other in ENGINES if other != name]
    )
    require_dense(
        inputs.shape,
        copies=engine.can.copies,
        kept=len(ask.keep & frozenset(SCORE_STAGES)),
        itemsize=8 if ask.dtype == "float64" else 4,
        available=available_bytes(),
    )
    return engine


def _with_hidden_counts(
    shapes: tuple[StageShape, ...], reading: Reading, hidden: HiddenCount
) -> tuple[StageShape, ...]:
    """The shape trace with the masking step told by name and number: `causal hides 3 of 9`."""
    mask = reading.settings.mask or "the mask"
    return tuple(
        dataclasses.replace(step, formula=f"{mask} {hidden.words}")
        if step.stage == "masked"
        else step
        for step in shapes
    )


def _result(
    reading: Reading,
    options: RunOptions,
    selection: Selection,
    trace: Trace,
    views: ViewBuilder,
) -> RunResult:
    inputs = reading.inputs
    every, rows = options.all_rows, bool(trace.stats)
    return RunResult(
        input=reading.summary,
        settings=reading.settings,
        engine=options.engine,
        dtype=options.dtype,
        device=options.device,
        shapes=trace.shapes,
        rows=listed_rows(inputs, trace, selection, every=every)
        if rows and "json" in options.parts
        else (),
        rows_total=len(selection.pairs) * len(selection.queries) if rows else 0,
        shown_rows=shown_rows(inputs, trace, selection, every=every)
        if rows and "rows" in options.parts
        else (),
        heads=head_rows(trace, selection) if rows else (),
        views=tuple(views.views),
        views_left_out=len(selection.pairs) - len(selection.drawn) if views.views else 0,
        findings=trace.findings,
        values={name: narrowed(trace.stages[name], selection.axes) for name in options.values},
        trace=trace,
        labels=inputs.labels,
        fine=fine(trace.findings, sums=rows),
        sum_tolerance=_sum_tolerance(inputs, options.dtype),
        chosen=selection.axes,
        masked=inputs.masks,
    )


def _sum_tolerance(inputs: AttentionInputs, dtype: str) -> float:
    """How far a row's sum may be from 1; any distance where sinks take their share."""
    return math.inf if inputs.sinks is not None else sum_tolerance(dtype, inputs.shape[3])
