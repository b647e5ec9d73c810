"""check dump: does every stage of a file follow from the one before it, and if not, why?"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from numpy.typing import NDArray

from attn_cli import formats
from attn_cli.core.compare import apart
from attn_cli.core.dump import Dump
from attn_cli.core.engine import Progress
from attn_cli.core.findings import Finding, note
from attn_cli.core.results_diff import Side, StageResult
from attn_cli.core.results_dump import DumpResult, StageCheck, StageVerdict
from attn_cli.core.results_mistakes import Diagnosis
from attn_cli.core.slicing import one_head
from attn_cli.core.step_budget import fault_free
from attn_cli.errors import InputError
from attn_cli.models import is_model
from attn_cli.recognize.stage_dump import ORDER, StageDump, arrange, named
from attn_cli.recognize.stage_layout import OVER_KEYS
from attn_cli.workflows.check.dump_output import as_context, settled
from attn_cli.workflows.check.dump_said import (
    assumed_mask,
    made_from,
    mask_note,
    row_sums,
    said,
    to_float32,
    why_not,
)
from attn_cli.workflows.check.dump_stages import Held, hold_stages
from attn_cli.workflows.check.dump_units import written_units
from attn_cli.workflows.diff_conventions import conventions_of, cut
from attn_cli.workflows.diff_options import DiffOptions
from attn_cli.workflows.diff_question import Asked, asked, side_rule
from attn_cli.workflows.diff_results import results
from attn_cli.workflows.stage_mistakes import Wrong, explain_stages

Array = NDArray[Any]


def check_dump(
    source: str,
    options: DiffOptions,
    *,
    stdin: BinaryIO | None = None,
    progress: Progress | None = None,
) -> DumpResult:
    """The stages of one file, each held against what the one before it makes.

    Options by side are those of the left one.

    Raises InputError for what holds no stages, and where names or layouts could mean two things.
    """
    return examine(formats.read(source, stdin=stdin), options, progress=progress)


def examine(dump: Dump, options: DiffOptions, *, progress: Progress | None = None) -> DumpResult:
    """The same of what was read already.

    Where shapes do not tell whether heads or positions come first, the order in which everything
    follows is taken, if only one is that; where nothing can be recomputed either will do.
    """
    try:
        return _examined(dump, options, progress)
    except InputError:
        tried = {} if options.layout else _by_layout(dump, options)
        fitting = [layout for layout, one in tried.items() if one.verdict == "consistent"]
        if tried and all(one.verdict == "undecided" for one in tried.values()):
            return next(iter(tried.values()))
        if len(fitting) != 1:
            raise
        result = tried[fitting[0]]
        words = f"only the numbers tell the order of axes: with {fitting[0]} everything follows"
        return dataclasses.replace(result, findings=(note("layout", words), *result.findings))


def _by_layout(dump: Dump, options: DiffOptions) -> dict[str, DumpResult]:
    """What comes of the layouts that can be read, unexplained."""
    found = {}
    for layout in ("bhld", "blhd"):
        with contextlib.suppress(InputError):
            chosen = dataclasses.replace(options, layout={"left": layout, "right": layout})
            found[layout] = _examined(dump, chosen, None, explains=False)
    return found


def _examined(
    dump: Dump, options: DiffOptions, progress: Progress | None, *, explains: bool = True
) -> DumpResult:
    stage_dump, renamed = as_context(_arranged(dump, options))
    question = asked(_twice(stage_dump), options)
    question, assumed = assumed_mask(question, stage_dump)
    held = _held(stage_dump, question)
    found = _results(held, question, options, progress)
    held, found, coarse = _in_float32(held, found, question, options)
    diagnosis = _explained(found, held, question, options) if explains else Diagnosis()
    checks = settled(_checks(stage_dump, found, question), diagnosis, renamed)
    return DumpResult(
        source=dump.source,
        dtype=stage_dump.dtype,
        told=stage_dump.told,
        input=question.summary,
        settings=question.settings,
        stages=checks,
        tolerance=options.tolerance.words.replace("right", "recomputed"),
        masked=question.inputs.masks if assumed is None else None,
        diagnosis=diagnosis if _wrong(checks) else Diagnosis(),
        findings=(
            *_findings(stage_dump, question, held, checks, assumed, renamed),
            *to_float32(coarse),
        ),
    )


def _results(
    held: Held, question: Asked, options: DiffOptions, progress: Progress | None = None
) -> dict[str, StageResult]:
    """What came of every stage that could be recomputed, by its name."""
    tallies = hold_stages(held, question, options.tolerance, progress=progress)
    return {result.stage: result for result in results(tallies, question.inputs.labels)}


def _in_float32(
    held: Held, found: dict[str, StageResult], question: Asked, options: DiffOptions
) -> tuple[Held, dict[str, StageResult], tuple[str, ...]]:
    """The same, and which stages of a float64 file follow as far as float32 goes, and no further.

    A softmax in float32, or a constant of that precision, is no mistake.
    """
    off = _different(found)
    if held.dtype != "float64" or not off or options.computed or options.tolerance.given:
        return held, found, ()
    coarser = dataclasses.replace(held, dtype="float32")
    again = _results(coarser, question, options)
    coarse = tuple(name for name in off if name not in _different(again))
    return (coarser, again, coarse) if coarse else (held, found, ())


def _different(found: Mapping[str, StageResult]) -> tuple[str, ...]:
    return tuple(name for name in ORDER if name in found and found[name].verdict == "different")


def _arranged(dump: Dump, options: DiffOptions) -> StageDump:
    if is_model(dump):
        raise InputError(
            f"{dump.source} holds a model, and check dump looks at stages",
            hint="attn run MODEL --text WORDS --layer N --save FILE writes those of one layer",
        )
    waiting = named(dump, "left", options.map)
    unknown = [name for name in options.map if name not in dump.arrays]
    if unknown:
        raise InputError(
            f"--map names {unknown[0]!r}, which {dump.source} does not hold",
            hint=f"it holds {', '.join(list(dump.arrays)[:12])}",
        )
    sizes = {"H": options.choices.heads, "Hkv": options.choices.kv_heads}
    return arrange(
        waiting,
        layout=options.layout.get("left"),
        known={name: size for name, size in sizes.items() if size is not None},
        computed=options.computed.get("left"),
    )


def _twice(dump: StageDump) -> Mapping[Side, StageDump]:
    """One dump as both sides of a comparison: what is asked of two is asked of it."""
    return {"left": dump, "right": dump}


def _held(dump: StageDump, question: Asked) -> Held:
    """The stages, whether the scores hold the scale, and the digits that they are written with."""
    scaled = conventions_of(_twice(dump), question)["left"] or _fits_unscaled(dump, question)
    held = Held(dump.stages, dump.dtype, scaled and "scores" in dump.stages)
    units = written_units(dump.stages, dump.dtype)
    if not units:
        return held
    fitting = {name for name, fits in _first_part(held, question).items() if fits}
    units = {name: unit for name, unit in units.items() if name not in fitting}
    return dataclasses.replace(held, units=units)


def _fits_unscaled(dump: StageDump, question: Asked) -> bool:
    """Where the scale is not known: whether the stages after the scores follow without one."""
    if "scaled" not in question.unknown or "scores" not in dump.stages:
        return False
    found = _first_part(Held(dump.stages, dump.dtype, scaled=True), question)
    after = [fits for name, fits in found.items() if name in (*OVER_KEYS, "lse")]
    return bool(after) and all(after)


def _first_part(held: Held, question: Asked) -> dict[str, bool]:
    """Whether the first head's stages follow from those before them."""
    narrowed = one_head(question.inputs, 0, 0)
    group = question.inputs.shape[1] // question.inputs.kv_heads
    rule = side_rule(question, narrowed, scores_scaled=held.scaled)
    stages = cut(held.stages, 0, 0, group)
    made = fault_free(rule, stages, dtype=held.dtype)
    fits = {}
    for name, (right, budget) in made.items():
        gap, other, _ = apart(stages[name], right)
        fits[name] = not other.any() and bool((gap <= budget).all())
    return fits


def _checks(
    dump: StageDump, found: Mapping[str, StageResult], question: Asked
) -> tuple[StageCheck, ...]:
    checks = []
    for stage in (name for name in ORDER if name in dump.stages):
        result, shape = found.get(stage), dump.stages[stage].shape
        name = dump.names.get(stage, stage)
        if result is None:
            reason = why_not(stage, dump.stages, question)
            verdict: StageVerdict = "not checked" if reason else "given"
            checks.append(StageCheck(stage, name, shape, verdict, reason=reason))
            continue
        wrong = result.verdict == "different"
        sources = made_from(stage, dump.stages)
        verdict = "inconsistent" if wrong else "consistent"
        checks.append(StageCheck(stage, name, shape, verdict, sources, result))
    return tuple(checks)


def _wrong(checks: Sequence[StageCheck]) -> bool:
    return any(check.verdict == "inconsistent" for check in checks)


def _explained(
    found: Mapping[str, StageResult],
    held: Held,
    question: Asked,
    options: DiffOptions,
) -> Diagnosis:
    """What the catalogue says of the stages that do not follow."""
    order = tuple(name for name in ORDER if name in held.stages)
    stages = _different(found)
    if not stages:
        return Diagnosis()
    wrong = Wrong(
        held=held.stages,
        order=order,
        stages=stages,
        dtype=held.dtype,
        factor=question.inputs.effective_scale if held.scaled else 1.0,
        units=held.units,
        at=(found[stages[0]].where.get("batch", 0), found[stages[0]].where.get("head", 0)),
        own_first=bool(options.choices.masks) or question.settings.mask is not None,
    )
    return explain_stages(wrong, question.inputs)


def _findings(
    dump: StageDump,
    question: Asked,
    held: Held,
    checks: Sequence[StageCheck],
    assumed: Finding | None,
    renamed: str | None,
) -> list[Finding]:
    """Readings that were chosen, conventions, and what the rows say that could not be checked."""
    every = [*dump.findings, *question.findings]
    plain = [dataclasses.replace(f, message=f.message.removeprefix("left: ")) for f in every]
    return [
        *plain,
        *said(held, question, renamed),
        *([] if assumed is None else [assumed]),
        *row_sums(held, question, checks),
        *mask_note(held, question),
    ]
