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
from attn_cli.core.engine import Ask, Progress, Watcher
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.ranks import Ranks
from attn_cli.core.results import Row, RunResult, ShownRow
from attn_cli.core.results_spread import Spread
from attn_cli.core.settings import Choices
from attn_cli.core.trace import Stage, StageShape, Trace
from attn_cli.engines import ENGINES
from attn_cli.errors import InputError
from attn_cli.models import is_model
from attn_cli.recognize import understand
from attn_cli.recognize.one_array import load_array
from attn_cli.recognize.reading import Reading
from attn_cli.stats import STATISTICS
from attn_cli.workflows.again import Again, check_few, lacking, stages_again
from attn_cli.workflows.one_kind import refuse_text
from attn_cli.workflows.room import engine_for
from attn_cli.workflows.selection import Selection, checked, narrowed, select
from attn_cli.workflows.spread import is_long, spread
from attn_cli.workflows.stages import check_stages, not_shown, taken_stages
from attn_cli.workflows.tables import (
    ROWS_LISTED,
    Rows,
    best_of,
    head_rows,
    listed,
    picked,
    unusual,
)
from attn_cli.workflows.views import ViewBuilder, sampled_views

if TYPE_CHECKING:
    from attn_cli.core.model_results import ModelResult

PARTS = ("shapes", "weights", "rows", "heads", "spread", "findings", "values", "predictions")
DEFAULT_PARTS = frozenset(PARTS) - {"values"}
ROW_PARTS = frozenset(
    {"weights", "rows", "heads", "spread"}
)  # what an engine without weights lacks
TOP = 5  # best keys of each row
MOST_AGAIN = 1 << 31  # scores that are made again for the best keys of the rows that are told


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What `attn run` was asked for; `parts` says what will be shown, so that no more is made."""

    choices: Choices = field(default_factory=Choices)
    engine: str = "numpy"
    block: int | None = None  # queries and keys of a tile
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
    ranks: Ranks | None = None  # the processes that share the work, where there are several


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
        if options.ranks is not None:
            raise InputError(
                f"{dump.source} holds a model, whose layers are not shared among ranks"
            )
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
    made = _made_again(inputs, options)
    check_few(selection, inputs.shape[3], made, options.engine)
    views = ViewBuilder(inputs, selection)
    checks = RunChecks(inputs, file_precision=reading.summary.precision)
    trace = compute(reading, options, checks, keep=keep, views=views, progress=progress)
    again = Again(inputs, options.dtype)
    stages, said = stages_again(again, selection, made)
    if ENGINES[options.engine].can.tiles and "weights" in options.parts:
        views.views += sampled_views(again, selection)
    trace = dataclasses.replace(trace, findings=(*trace.findings, *said))
    if options.save is not None:
        from attn_cli.workflows.saving import save_trace

        save_trace(options.save, reading, trace, force=options.force)
    return _result(reading, options, selection, trace, views, stages)


def _made_again(inputs: AttentionInputs, options: RunOptions) -> list[str]:
    """The stages of --values that the engine never holds whole, and that single rows have."""
    can = ENGINES[options.engine].can
    return lacking(frozenset(options.values), can.known(inputs)) if can.tiles else []


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
    wanted = keep | frozenset(options.values) - {*_made_again(inputs, options)}
    can = ENGINES[options.engine].can
    if options.save is not None:
        wanted |= taken_stages(inputs) & can.shows(inputs)
    check_stages(inputs, wanted | frozenset(options.values))
    rows = can.rows(inputs) or bool(_named(options) & ROW_PARTS)
    ask = Ask(
        keep=wanted,
        watch=watchers,
        stats=[STATISTICS[name] for name in STATISTICS] if rows else (),
        top=TOP if rows and not (can.tiles and _few_rows(inputs, options)) else 0,
        cosine=rows and not can.tiles and options.block is None,  # refused or in tiles
        received=rows and _summed(inputs, options),
        block=_block(options),
        dtype=options.dtype,
        device=options.device,
        progress=progress,
    )
    trace = _attended(inputs, ask, options)
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


def _attended(inputs: AttentionInputs, ask: Ask, options: RunOptions) -> Trace:
    """What the engine computes, alone or shared among processes."""
    engine = engine_for(ask, options.engine, inputs)
    if ask.progress is not None and engine.can.tiles:
        ask.progress(0, math.prod(inputs.shape[:3]))
    if options.ranks is None:
        return engine.run(inputs, ask)
    from attn_cli.workflows.sharing import run_shared

    return run_shared(engine, inputs, ask, options.ranks)


def _summed(inputs: AttentionInputs, options: RunOptions) -> bool:
    """Whether the rows are also looked at as a whole: where they are many, or it was asked for."""
    return is_long(inputs) or "spread" in _named(options)


def _few_rows(inputs: AttentionInputs, options: RunOptions) -> bool:
    """Whether the rows that will be told are so few that their best keys are sooner found again."""
    batch, heads, queries, keys = inputs.shape
    rows = batch * heads * queries
    if not options.all_rows:
        rows = min(rows, ROWS_LISTED)
    return rows * keys <= MOST_AGAIN


def _block(options: RunOptions) -> int | None:
    if options.block is not None and options.block < 1:
        raise InputError(f"--block is {options.block}: expected a positive number")
    return options.block


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
    stages: Mapping[str, Stage],
) -> RunResult:
    inputs, rows = reading.inputs, bool(trace.stats)
    values = {
        name: stages[name] if name in stages else narrowed(trace.stages[name], selection.axes)
        for name in options.values
    }
    listed_rows, shown_rows, summed = _rows(inputs, options, selection, trace)
    return RunResult(
        input=reading.summary,
        settings=reading.settings,
        engine=options.engine,
        dtype=options.dtype,
        device=options.device,
        shapes=trace.shapes,
        rows=listed_rows,
        rows_total=len(selection.pairs) * len(selection.queries) if rows else 0,
        shown_rows=shown_rows,
        heads=head_rows(trace, selection) if rows else (),
        spread=summed,
        views=tuple(views.views),
        views_left_out=len(selection.pairs) - len(selection.drawn) if views.views else 0,
        findings=trace.findings,
        values=values,
        trace=trace,
        labels=inputs.labels,
        fine=fine(trace.findings, sums=rows),
        sum_tolerance=_sum_tolerance(inputs, options.dtype),
        chosen=selection.axes,
        masked=inputs.masks,
    )


def _rows(
    inputs: AttentionInputs, options: RunOptions, selection: Selection, trace: Trace
) -> tuple[tuple[Row, ...], tuple[ShownRow, ...], Spread | None]:
    """The rows for JSON, those for the screen, and the rows of a long run as a whole."""
    if not trace.stats:
        return (), (), None
    json, every = "json" in options.parts, options.all_rows
    listing = listed(selection, every=every) if json else []
    showing = picked(trace, selection, every=every) if "rows" in options.parts else []
    whole = _summed(inputs, options) and (json or "spread" in options.parts)
    odd = unusual(trace, selection.pairs, selection.queries) if whole and json else []
    if trace.top is not None:
        best = best_of(trace.top)
    else:
        every_at = [*listing, *(at for at, _ in (*showing, *odd))]
        best = Again(inputs, options.dtype).best(every_at, TOP)
    rows = Rows(inputs, trace, best)
    return (
        tuple(map(rows.record, listing)),
        rows.shown(showing),
        spread(inputs, trace, selection, rows.shown(odd)) if whole else None,
    )


def _sum_tolerance(inputs: AttentionInputs, dtype: str) -> float:
    """How far a row's sum may be from 1; any distance where sinks take their share."""
    return math.inf if inputs.sinks is not None else sum_tolerance(dtype, inputs.shape[3])
