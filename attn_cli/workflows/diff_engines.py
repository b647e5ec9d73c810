"""diff of two engines: the same input through both, stage by stage."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from numpy.typing import NDArray

from attn_cli import formats
from attn_cli.core.budget import measure_budget
from attn_cli.core.difference import SideTally, Tally
from attn_cli.core.dump import Dump
from attn_cli.core.engine import Ask, Progress, refusal
from attn_cli.core.findings import Finding
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.onestep import rule_of
from attn_cli.core.results_diff import SIDES, Coverage, DiffResult, Side, SideInfo
from attn_cli.core.rounding import accumulator
from attn_cli.core.slicing import one_head, one_item
from attn_cli.core.steps import K_AXES, Q_AXES, V_AXES, steps
from attn_cli.core.trace import StageShape, Trace
from attn_cli.engines import ENGINES
from attn_cli.errors import InputError, UnsupportedError
from attn_cli.models import is_model
from attn_cli.recognize.reading import Reading
from attn_cli.workflows.diff_findings import engine_findings
from attn_cli.workflows.diff_options import DEFAULT_SHAPE, DiffOptions, EngineSide
from attn_cli.workflows.diff_parts import Part, hold
from attn_cli.workflows.diff_results import results
from attn_cli.workflows.generated import generated
from attn_cli.workflows.room import engine_for
from attn_cli.workflows.run import read_dump
from attn_cli.workflows.stages import check_stages

Array = NDArray[Any]
Stages = Mapping[str, Array]
ORACLE = EngineSide("numpy", "float64")
SPREAD = 1.5  # of the default scores: a softmax that neither saturates nor is flat


def diff_engines(
    sides: tuple[EngineSide, EngineSide],
    source: str | None,
    options: DiffOptions,
    *,
    stdin: BinaryIO | None = None,
    progress: Progress | None = None,
) -> DiffResult:
    """Both engines on `source`, or on seeded numbers where it is None.

    One (batch, head) is in memory at a time; of token vectors one batch item, for its heads meet
    again in the output. Raises InputError, and UnsupportedError where an engine cannot do it.
    """
    choices = options.choices
    if source is None:
        dump = _generated(options)
        choices = dataclasses.replace(choices, seed=None, kv_heads=None, d_v=None)  # they made it
    else:
        _check_no_shape(options)
        dump = formats.read(source, stdin=stdin)
    if is_model(dump):
        raise InputError(
            f"{dump.source} holds a model, and diff compares one layer",
            hint="attn run MODEL --text WORDS --layer N --save FILE writes one",
        )
    reading = read_dump(
        dump, choices, context=options.context, weights=options.weights, stdin=stdin
    )
    return diff_reading(reading, sides, options, progress=progress)


def _check_no_shape(options: DiffOptions) -> None:
    if options.shape is not None:
        raise InputError(
            "--shape makes an input, and one was given", hint="leave one of the two away"
        )


def _generated(options: DiffOptions) -> Dump:
    """Unit normal k and v, and q with the spread that makes scaled scores of that spread."""
    choices, shape = options.choices, options.shape or DEFAULT_SHAPE
    dump = generated(shape, kv_heads=choices.kv_heads, d_v=choices.d_v, seed=choices.seed or 0)
    arrays = {**dump.arrays, "q": dump.arrays["q"] * SPREAD}
    axes = {"q": Q_AXES, "k": K_AXES, "v": V_AXES}  # known, so nothing need be said of them
    source = f"{dump.source}, q × {SPREAD:g}"
    return dataclasses.replace(dump, source=source, arrays=arrays, axes=axes)


def diff_reading(
    reading: Reading,
    sides: tuple[EngineSide, EngineSide],
    options: DiffOptions,
    *,
    progress: Progress | None = None,
) -> DiffResult:
    """Both engines on what was read."""
    inputs = reading.inputs
    check_stages(inputs, frozenset(options.stages))
    taken = compared_steps(inputs)
    if options.stages:
        taken = tuple(step for step in taken if step.stage in options.stages)
    by_side = dict(zip(SIDES, sides, strict=True))
    first = next(iter(_questions(inputs)))[1]
    shown = {side: ENGINES[it.engine].can.shows(first) for side, it in by_side.items()}
    tallies = {
        step.stage: _tally(step, by_side, inputs)
        for step in taken
        if all(step.stage in shown[side] for side in SIDES)
    }
    said: list[Finding] = []
    if tallies:
        for part in _parts(inputs, by_side, options, said, progress):
            hold(part, tallies, options.tolerance)
    stages = results(tallies, inputs.labels)
    return DiffResult(
        left=_info(sides[0], options),
        right=_info(sides[1], options),
        input=reading.summary,
        settings=reading.settings,
        stages=stages,
        coverage=_coverage(taken, tallies, by_side, shown),
        oracle="the input",
        tolerance=options.tolerance.words,
        masked=inputs.masks,
        findings=(
            *reading.findings,
            *said,
            *engine_findings(reading, tallies, stages, whole=is_whole(inputs)),
        ),
    )


def compared_steps(inputs: AttentionInputs) -> tuple[StageShape, ...]:
    """The steps that are taken, less an output that is nothing but the stage before it."""
    made = inputs.output_projection is not None
    return tuple(step for step in steps(inputs, "float64") if made or step.stage != "output")


def _tally(step: StageShape, sides: Mapping[Side, EngineSide], inputs: AttentionInputs) -> Tally:
    left, right = (SideTally(sides[side].dtype, step.shape) for side in SIDES)
    return Tally(step.stage, step.axes, left, right, inputs.q_offset)


class EngineQuestion:
    """One part's answer by numpy in float64, and the measured budgets around it."""

    def __init__(self, inputs: AttentionInputs, oracle: Stages) -> None:
        self.inputs, self.oracle = inputs, oracle
        self._budgets: dict[str, Stages] = {}

    def budget(self, dtype: str) -> Stages:
        if dtype not in self._budgets:
            self._budgets[dtype] = measure_budget(self.inputs, self.oracle, dtype=dtype)
        return self._budgets[dtype]


WHOLE = 2**22  # scores of one item: up to so many, all its heads go through the engines at once


def _questions(inputs: AttentionInputs) -> Iterator[tuple[tuple[int, int], AttentionInputs]]:
    """The parts in turn, each with its item and first head.

    Parts are whole items, so that an engine is seen to join the right heads, or single heads where
    an item's scores are large and no layer binds them together.
    """
    batch, heads, _, _ = inputs.shape
    if is_whole(inputs):
        yield from (((b, 0), one_item(inputs, b)) for b in range(batch))
    else:
        places = ((b, h) for b in range(batch) for h in range(heads))
        yield from ((at, one_head(inputs, *at)) for at in places)


def is_whole(inputs: AttentionInputs) -> bool:
    """Whether all heads of an item go through the engines at once."""
    _, heads, queries, keys = inputs.shape
    return inputs.x is not None or heads == 1 or heads * queries * keys <= WHOLE


def _parts(
    inputs: AttentionInputs,
    sides: Mapping[Side, EngineSide],
    options: DiffOptions,
    said: list[Finding],
    progress: Progress | None,
) -> Iterator[Part]:
    """Every part in turn; nothing of the last one is kept but what the engines say of it."""
    batch, heads, _, _ = inputs.shape
    total = batch if is_whole(inputs) else batch * heads
    for done, (at, part) in enumerate(_questions(inputs), 1):
        yield _part(part, at, sides, options, said, group=heads // inputs.kv_heads)
        if progress:
            progress(done, total)


def _part(
    inputs: AttentionInputs,
    at: tuple[int, int],
    sides: Mapping[Side, EngineSide],
    options: DiffOptions,
    said: list[Finding],
    *,
    group: int,
) -> Part:
    wanted = frozenset(step.stage for step in compared_steps(inputs))
    traces = {}
    for side, it in sides.items():
        trace = _run(it, inputs, wanted, options.device)
        said += [finding for finding in trace.findings if finding not in said]
        traces[side] = {name: stage.array for name, stage in trace.stages.items()}
    right = next((side for side, it in sides.items() if it == ORACLE), None)
    oracle = traces[right] if right else _oracle(inputs, wanted)
    rule = rule_of(inputs)
    return Part(
        at,
        traces,
        EngineQuestion(inputs, oracle),
        dict.fromkeys(SIDES, rule),
        dict.fromkeys(SIDES, frozenset()),
        group,
    )


def _oracle(inputs: AttentionInputs, wanted: frozenset[str]) -> Stages:
    stages = _run(ORACLE, inputs, wanted, "cpu").stages
    return {name: stage.array for name, stage in stages.items()}


def _run(side: EngineSide, inputs: AttentionInputs, wanted: frozenset[str], device: str) -> Trace:
    engine = ENGINES[side.engine]
    keep = wanted & engine.can.shows(inputs)
    ask = Ask(keep=keep, dtype=side.dtype, device=_device(side, device))
    reason = refusal(engine, inputs, ask)
    if reason is not None:
        able = [name for name in ENGINES if refusal(ENGINES[name], inputs, ask) is None]
        *first, last = able or [""]
        names = f"{', '.join(first)} and {last}" if first else last
        raise UnsupportedError(reason, hint=f"{names} can" if able else "")
    return engine_for(ask, side.engine, inputs).run(inputs, ask)


def _device(side: EngineSide, device: str) -> str:
    """The device asked for; an engine of the CPU alone stays there, one that needs more refuses."""
    can = ENGINES[side.engine].can.devices
    return "cpu" if can == ("cpu",) else device


def _info(side: EngineSide, options: DiffOptions) -> SideInfo:
    return SideInfo(
        name=side.engine,
        dtype=side.dtype,
        kind="engine",
        device=_device(side, options.device),
        softmax=accumulator(side.dtype).__name__,
    )


def _coverage(
    taken: tuple[StageShape, ...],
    tallies: Mapping[str, Tally],
    sides: Mapping[Side, EngineSide],
    shown: Mapping[Side, frozenset[str]],
) -> Coverage:
    missing = {}
    for step in taken:
        if step.stage not in tallies:
            silent = [sides[s].engine for s in SIDES if step.stage not in shown[s]]
            missing[step.stage] = f"not shown by {' and '.join(dict.fromkeys(silent))}"
    return Coverage(tuple(tallies), {}, missing)
