"""run: attention on an input, step by step, with everything that there is to say of it."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import BinaryIO

from attn_cli import formats
from attn_cli.checks.fine import fine
from attn_cli.checks.masking import HiddenCount
from attn_cli.checks.rows import sum_tolerance
from attn_cli.checks.run_checks import RunChecks
from attn_cli.core.engine import Ask, Engine, Progress, require
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.memory import available_bytes, require_dense
from attn_cli.core.results import RunResult
from attn_cli.core.settings import Choices
from attn_cli.core.trace import SCORE_STAGES, Stage, StageShape, Trace
from attn_cli.engines import ENGINES
from attn_cli.recognize import understand
from attn_cli.recognize.one_array import load_array
from attn_cli.recognize.reading import Reading
from attn_cli.stats import STATISTICS
from attn_cli.workflows.selection import Selection, select
from attn_cli.workflows.stages import engine_stages, taken_stages, with_surroundings
from attn_cli.workflows.tables import head_rows, listed_rows, shown_rows
from attn_cli.workflows.views import ViewBuilder

PARTS = ("shapes", "weights", "rows", "heads", "findings", "values")
DEFAULT_PARTS = frozenset(PARTS) - {"values"}
TOP = 5  # best keys of each row


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What `attn run` was asked for; `parts` says what will be shown, so that no more is made."""

    choices: Choices = field(default_factory=Choices)
    engine: str = "numpy"
    dtype: str = "float64"
    device: str = "cpu"
    context: str | None = None
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
) -> RunResult:
    """Read `source` ("-" for standard input), run attention on it and say all that was asked for.

    Raises InputError or UnsupportedError; with `save` the trace is written, whole or not at all.
    """
    reading = read_input(source, options.choices, context=options.context, stdin=stdin)
    return run_reading(reading, options, progress=progress)


def read_input(
    source: str, choices: Choices, *, context: str | None = None, stdin: BinaryIO | None = None
) -> Reading:
    """The file understood; `context` names the file of a second sequence."""
    second = None if context is None else formats.read(context, stdin=stdin)
    dump = formats.read(source, stdin=stdin)
    return understand(dump, choices, context=second, load=load_array)


def run_reading(
    reading: Reading, options: RunOptions, *, progress: Progress | None = None
) -> RunResult:
    """Run attention on what was read and gather what `options` asks for."""
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
    trace = compute(reading, options, checks, views=views, progress=progress)
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
    progress: Progress | None = None,
) -> Trace:
    """The trace with its findings; holds the stages that `keep`, `values` and `save` name."""
    inputs = reading.inputs
    watch = checks.watch
    if views is not None and "weights" in options.parts:
        watch["weights"].append(views)
    wanted = keep | frozenset(options.values)
    if options.save is not None:
        wanted |= taken_stages(inputs)
    ask = Ask(
        keep=engine_stages(wanted),
        watch=watch,
        stats=[STATISTICS[name] for name in STATISTICS],
        top=TOP,
        cosine=True,
        dtype=options.dtype,
        device=options.device,
        progress=progress,
    )
    trace = engine_for(ask, options.engine, inputs).run(inputs, ask)
    return dataclasses.replace(
        trace,
        stages=with_surroundings(inputs, trace, wanted),
        shapes=_with_hidden_counts(trace.shapes, reading, checks.hidden),
        provenance=dataclasses.replace(trace.provenance, input_sha256=reading.summary.sha256),
        findings=(*reading.findings, *checks.findings(trace)),
    )


def engine_for(ask: Ask, name: str, inputs: AttentionInputs) -> Engine:
    """The engine called `name`; raises where it cannot do what is asked or has no room for it."""
    engine = ENGINES[name]
    require(engine, ask, others=lambda: [ENGINES[other] for other in ENGINES if other != name])
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
    every = options.all_rows
    return RunResult(
        input=reading.summary,
        settings=reading.settings,
        engine=options.engine,
        dtype=options.dtype,
        device=options.device,
        shapes=trace.shapes,
        rows=listed_rows(inputs, trace, selection, every=every) if "json" in options.parts else (),
        rows_total=len(selection.pairs) * len(selection.queries),
        shown_rows=shown_rows(inputs, trace, selection, every=every)
        if "rows" in options.parts
        else (),
        heads=head_rows(trace, selection),
        views=tuple(views.views),
        views_left_out=len(selection.pairs) - len(selection.drawn),
        findings=trace.findings,
        values={name: _narrowed(trace.stages[name], selection) for name in options.values},
        trace=trace,
        labels=inputs.labels,
        fine=fine(trace.findings),
        sum_tolerance=_sum_tolerance(inputs, options.dtype),
        chosen=selection.axes,
    )


def _sum_tolerance(inputs: AttentionInputs, dtype: str) -> float:
    """How far a row's sum may be from 1; any distance where sinks take their share."""
    return math.inf if inputs.sinks is not None else sum_tolerance(dtype, inputs.shape[3])


def _narrowed(stage: Stage, selection: Selection) -> Stage:
    """The stage at the selected items, heads and queries, where it has such axes."""
    chosen = selection.axes
    array = stage.array
    for axis, name in enumerate(stage.axes):
        if name in chosen and not ("key" in stage.axes and "query" not in stage.axes):
            array = array.take(chosen[name], axis)
    return dataclasses.replace(stage, array=array)
