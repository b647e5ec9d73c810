"""diff of two dumps: stages that somebody has saved, from any framework."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

from attn_cli.core.difference import SideTally, Tally
from attn_cli.core.dump import Dump
from attn_cli.core.engine import Progress
from attn_cli.core.findings import Finding, Place, note
from attn_cli.core.onestep import Rule, next_stages
from attn_cli.core.results_diff import SIDES, Coverage, DiffResult, Side, SideInfo
from attn_cli.core.slicing import one_head, one_item
from attn_cli.errors import InputError
from attn_cli.models import is_model
from attn_cli.recognize.stage_dump import ORDER, NamedDump, StageDump, arrange, named
from attn_cli.recognize.stage_layout import WITHOUT_HEADS
from attn_cli.workflows.diff_conventions import conventions_of, cut
from attn_cli.workflows.diff_engines import WHOLE
from attn_cli.workflows.diff_fills import fills_hidden, said_of_fills, with_infinity
from attn_cli.workflows.diff_findings import common_findings
from attn_cli.workflows.diff_mistakes import mistakes_of
from attn_cli.workflows.diff_options import DiffOptions
from attn_cli.workflows.diff_parts import Part, hold
from attn_cli.workflows.diff_question import (
    Asked,
    ChainQuestion,
    NoQuestion,
    asked,
    side_rule,
    starts,
)
from attn_cli.workflows.diff_results import results
from attn_cli.workflows.stage_axes import AXES

Array = NDArray[Any]
Dumps = Mapping[Side, StageDump]
NO_STAGES: frozenset[str] = frozenset()


def diff_dumps(
    left: Dump,
    right: Dump,
    options: DiffOptions,
    *,
    progress: Progress | None = None,
) -> DiffResult:
    """Two files or folders of stages, held against each other, the formula and their own steps.

    Raises InputError for what holds no stages, and where names or layouts could mean two things.
    """
    dumps = _understood(left, right, options)
    shown = _shown(dumps, options)
    fitting = _same_shapes(dumps)
    question = asked(dumps, options) if fitting else None
    conventions = {} if question is None else conventions_of(dumps, question)
    derived = {} if question is None else _derivable(dumps, question, conventions, shown)
    tallies = _tallies(dumps, shown, derived)
    if question is None:
        parts = _plain_parts(dumps, tallies)
    else:
        parts = _parts(dumps, question, conventions, derived, progress)
    for part in parts:
        hold(part, tallies, options.tolerance)
    stages = results(tallies, None if question is None else question.inputs.labels)
    return DiffResult(
        left=_info(dumps["left"]),
        right=_info(dumps["right"]),
        input=None if question is None else question.summary,
        settings=None if question is None else question.settings,
        stages=stages,
        coverage=_coverage(dumps, shown, tallies, derived),
        oracle=None if question is None else _told(dumps, question),
        tolerance=options.tolerance.words,
        masked=_masked(question),
        mistakes={} if question is None else mistakes_of(dumps, stages, question, conventions),
        findings=(
            *(finding for side in SIDES for finding in dumps[side].findings),
            *(said for side in SIDES for said in said_of_fills(dumps[side], side)),
            *(() if question is None else _said(dumps, question, conventions)),
            *common_findings(tallies, stages),
        ),
    )


def _understood(left: Dump, right: Dump, options: DiffOptions) -> Dumps:
    """Both sides arranged; sizes that one alone does not tell are taken from the other."""
    waiting: dict[Side, NamedDump] = {}
    for side, dump in zip(SIDES, (left, right), strict=True):
        if is_model(dump):
            raise InputError(
                f"{dump.source} holds a model, and diff compares stages",
                hint="attn run MODEL --text WORDS --layer N --save FILE writes those of one layer",
            )
        waiting[side] = named(dump, side, options.map)
    _check_map(waiting, options)
    said = {"H": options.choices.heads, "Hkv": options.choices.kv_heads}
    known = {name: size for name, size in said.items() if size is not None}
    try:
        first = _arranged(waiting, "left", options, known)
        return {"left": first, "right": _second(waiting, "right", options, known, first)}
    except InputError:
        second = _arranged(waiting, "right", options, known)
        return {"left": _second(waiting, "left", options, known, second), "right": second}


def _arranged(
    waiting: Mapping[Side, NamedDump], side: Side, options: DiffOptions, known: Mapping[str, int]
) -> StageDump:
    return arrange(
        waiting[side],
        layout=options.layout.get(side),
        known=known,
        computed=options.computed.get(side),
    )


def _second(
    waiting: Mapping[Side, NamedDump],
    side: Side,
    options: DiffOptions,
    known: Mapping[str, int],
    other: StageDump,
) -> StageDump:
    """A side by itself, and where that can be read in two ways, by the other side's sizes."""
    try:
        return _arranged(waiting, side, options, known)
    except InputError:
        sizes = {name: size for name, size in other.sizes.items() if name in ("B", "H", "L", "S")}
        return _arranged(waiting, side, options, {**sizes, **known})


def _check_map(waiting: Mapping[Side, NamedDump], options: DiffOptions) -> None:
    """InputError for a name of --map that neither side has."""
    for theirs in options.map:
        plain = theirs.partition(":")[2] if theirs.startswith(("left:", "right:")) else theirs
        if not any(plain in it.dump.arrays for it in waiting.values()):
            raise InputError(
                f"--map names {plain!r}, which neither file holds",
                hint="; ".join(
                    f"{side} holds {', '.join(list(it.dump.arrays)[:12])}"
                    for side, it in waiting.items()
                ),
            )


def _shown(dumps: Dumps, options: DiffOptions) -> tuple[str, ...]:
    """The stages that some side shows and that are asked for, in the order of the formula."""
    wanted = options.stages or ORDER
    return tuple(
        name
        for name in ORDER
        if name in wanted and any(name in dump.stages for dump in dumps.values())
    )


def _same_shapes(dumps: Dumps) -> bool:
    """Whether all stages that both show have the same shapes, and both dumps the same sizes."""
    left, right = dumps["left"], dumps["right"]
    sizes = all(
        left.sizes[name] == right.sizes[name]
        for name in ("B", "H", "L", "S")
        if name in left.sizes and name in right.sizes
    )
    both = left.stages.keys() & right.stages.keys()
    return sizes and all(left.stages[n].shape == right.stages[n].shape for n in both)


def _tallies(dumps: Dumps, shown: tuple[str, ...], derived: Mapping[str, Side]) -> dict[str, Tally]:
    """One for every stage that both sides have; where the shapes differ that is all."""
    tallies = {}
    for name in shown:
        arrays = {side: dumps[side].stages.get(name) for side in SIDES}
        if name not in derived and any(array is None for array in arrays.values()):
            continue
        there = next(array for array in arrays.values() if array is not None)
        sides = {}
        for side, array in arrays.items():
            shape = (there if array is None else array).shape
            sides[side] = SideTally(dumps[side].dtype, shape, derived=array is None)
        tally = Tally(name, AXES[name], sides["left"], sides["right"])
        left, right = arrays["left"], arrays["right"]
        if left is not None and right is not None and left.shape != right.shape:
            tally.compare((0, 0), left, right, 0.0)
        tallies[name] = tally
    return tallies


def _plain_parts(dumps: Dumps, tallies: Mapping[str, Tally]) -> Iterator[Part]:
    """Stages of equal shape in dumps of other sizes: compared, and held against nothing else."""
    for name, tally in tallies.items():
        if tally.parts:
            continue
        for b in range(tally.left.shape[0]):
            stages = {side: {name: dumps[side].stages[name][b : b + 1]} for side in SIDES}
            question = NoQuestion(stages["left"])
            rules = dict.fromkeys(SIDES, Rule({}))
            yield Part((b, 0), stages, question, rules, dict.fromkeys(SIDES, NO_STAGES))


def _parts(
    dumps: Dumps,
    question: Asked,
    conventions: Mapping[Side, bool],
    derived: Mapping[str, Side],
    progress: Progress | None,
) -> Iterator[Part]:
    """Whole items, or where their scores are large head by head, and then what joins the heads."""
    batch, heads, queries, keys = question.inputs.shape
    whole = heads == 1 or heads * queries * keys <= WHOLE
    begin: tuple[str, ...] | None = None
    for b in range(batch):
        for h in (None,) if whole else range(heads):
            part, begin = _part(dumps, question, conventions, derived, (b, h), begin)
            yield part
        if not whole:
            yield _joining(dumps, question, conventions, derived, b)
        if progress:
            progress(b + 1, batch)


def _part(
    dumps: Dumps,
    question: Asked,
    conventions: Mapping[Side, bool],
    derived: Mapping[str, Side],
    at: tuple[int, int | None],
    begin: tuple[str, ...] | None,
) -> tuple[Part, tuple[str, ...]]:
    """One part, and the stages that the oracle begins with: the same in all parts."""
    b, h = at
    inputs = question.inputs
    group = inputs.shape[1] // inputs.kv_heads
    narrowed = fills_hidden(one_item(inputs, b) if h is None else one_head(inputs, b, h))
    rules = {side: side_rule(question, narrowed, scores_scaled=conventions[side]) for side in SIDES}
    stored = {side: cut(dumps[side].stages, b, h, group) for side in SIDES}
    stages = {side: with_infinity(stored[side]) for side in SIDES}
    other: Side = "right" if question.first == "left" else "left"
    held = {**stages[other], **stages[question.first]}
    base = side_rule(question, narrowed, scores_scaled=False)
    begin = starts(base, held, ORDER) if begin is None else begin
    if "scores" in begin:
        base = rules[question.first if "scores" in stages[question.first] else other]
    borrowed = any(name not in stages[question.first] for name in begin)
    made = ChainQuestion(
        base,
        {name: held[name] for name in begin},
        coarsest=dumps[other].dtype if borrowed else None,
    )
    own = _derive(stages, rules, derived)
    part = Part((b, h or 0), stages, made, rules, own, group, base=base.factor, stored=stored)
    return part, begin


def _derive(
    stages: dict[Side, dict[str, Array]], rules: Mapping[Side, Rule], derived: Mapping[str, Side]
) -> dict[Side, frozenset[str]]:
    """Gives a side what it lacks, made from what it has; returns which stages those are."""
    for side in SIDES:
        lacking = [name for name, who in derived.items() if who == side]
        if lacking:
            made = next_stages(rules[side], stages[side])
            stages[side] |= {name: made[name] for name in lacking if name in made}
    return {side: frozenset(n for n, who in derived.items() if who == side) for side in SIDES}


def _joining(
    dumps: Dumps,
    question: Asked,
    conventions: Mapping[Side, bool],
    derived: Mapping[str, Side],
    b: int,
) -> Part:
    """The stages of one item that have no heads, with the context that they are made of."""
    narrowed = one_item(question.inputs, b)
    names = (*WITHOUT_HEADS, "context")
    stages: dict[Side, dict[str, Array]] = {
        side: {n: a[b : b + 1] for n, a in dumps[side].stages.items() if n in names}
        for side in SIDES
    }
    rules = {side: side_rule(question, narrowed, scores_scaled=conventions[side]) for side in SIDES}
    own = _derive(stages, rules, derived)
    return Part(
        (b, 0), stages, NoQuestion(stages["left"]), rules, own, only=frozenset(WITHOUT_HEADS)
    )


def _derivable(
    dumps: Dumps, question: Asked, conventions: Mapping[Side, bool], shown: tuple[str, ...]
) -> dict[str, Side]:
    """Stages that one side shows and the other can be given: stage → the side it is made for."""
    narrowed = one_head(question.inputs, 0, 0)
    group = question.inputs.shape[1] // question.inputs.kv_heads
    found: dict[str, Side] = {}
    for side in SIDES:
        rule = side_rule(question, narrowed, scores_scaled=conventions[side])
        made = next_stages(rule, cut(dumps[side].stages, 0, 0, group))
        lacking = [name for name in shown if name not in dumps[side].stages and name in made]
        found |= dict.fromkeys(lacking, side)
    return {name: found[name] for name in shown if name in found}


def _masked(question: Asked | None) -> bool | None:
    """Whether anything is masked; None where it is, and nobody said how."""
    if question is None:
        return False
    return None if "masked" in question.unknown else question.inputs.masks


def _info(dump: StageDump) -> SideInfo:
    return SideInfo(name=dump.dump.source, dtype=dump.dtype, kind="file", note=dump.told)


def _told(dumps: Dumps, question: Asked) -> str:
    """What the oracle is made from, in words."""
    held = {**dumps["left"].stages, **dumps["right"].stages}
    begin: list[str] = [name for name in ("x", "q", "k", "v") if name in held]
    begin = begin or [next(name for name in ORDER if name in held)]
    other: Side = "right" if question.first == "left" else "left"
    by_side = {side: [n for n in begin if n in dumps[side].stages] for side in (question.first,)}
    by_side[other] = [name for name in begin if name not in by_side[question.first]]
    return " and ".join(f"{side}'s {', '.join(names)}" for side, names in by_side.items() if names)


def _coverage(
    dumps: Dumps, shown: tuple[str, ...], tallies: Mapping[str, Tally], derived: Mapping[str, Side]
) -> Coverage:
    missing = {}
    for name in shown:
        if name not in tallies:
            side = next(side for side in SIDES if name in dumps[side].stages)
            missing[name] = f"shown by the {side} side alone"
    return Coverage(tuple(tallies), {name: (side,) for name, side in derived.items()}, missing)


def _said(dumps: Dumps, question: Asked, conventions: Mapping[Side, bool]) -> Iterator[Finding]:
    """What was chosen, and what could not be known."""
    yield from question.findings
    for side in SIDES:
        if conventions[side] and "scores" in dumps[side].stages:
            yield note(
                "scaled-scores",
                f"{side}: its scores already hold the scale; they are compared as they stand, and "
                "the next stage is made from them without it",
                Place(stage="scores"),
            )
    if "masked" in question.unknown:
        yield note(
            "unknown-mask",
            f"keys are hidden, and no mask was given: which ones is taken from the "
            f"{question.first} side; --mask, or an array called mask, says which are right",
            Place(stage="masked"),
        )
    if "scaled" in question.unknown:
        words = "the scale is not known without q and k: --scale says it"
        yield note("unknown-scale", words, Place(stage="scaled"))
