"""Parting: which expression stands where a stage should be, with other values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.code_trace import STAGE_WORDS, Why
from attn_cli.diagnosis.trace.evidence import evidence, mixed, shapes
from attn_cli.diagnosis.trace.kinds import (
    ADDING,
    CHAIN,
    LAYERS,
    PRODUCTS,
    REPEATING,
    SPLITTING,
    WHOLE,
    Done,
    expected,
    rank,
)
from attn_cli.diagnosis.trace.labels import Match, matches, rearranged
from attn_cli.diagnosis.trace.stages import Forms

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Place:
    """The expression `index` stands where `stage` should be."""

    index: int
    stage: str
    why: Why
    detail: str


def places(done: Sequence[Done], forms: Forms, given: Sequence[str], dtype: str) -> list[Place]:
    """The expressions that take the place of a stage with other values, the first one to blame.

    Only where the output is wrong: code that arrives at the right output has gone its own way.
    `given` are stages that the code is handed, `dtype` is what it was asked in. Empty where no
    expression can be blamed.
    """
    reached = max((rank(stage) for one in done for stage in one.stages), default=-1)
    first = _first(done, forms, given, reached)
    if first is None:
        return [*_coarse(done, dtype)]
    found, last = [first], rank(first.stage)
    for index, one in enumerate(done[first.index + 1 :], first.index + 1):
        stage = expected(one, done[:index], forms, max(last, -1))
        if stage is not None and rank(stage) > last and not one.known:
            found.append(Place(index, stage, "values", ""))
            last = rank(stage)
    return found


def _first(done: Sequence[Done], forms: Forms, given: Sequence[str], reached: int) -> Place | None:
    early = _among_given(done, forms, given, reached)
    if early is not None:
        return early
    start = 0
    if reached >= 0:
        start = min(i for i, one in enumerate(done) if CHAIN[reached] in one.stages) + 1
    for index in range(start, len(done)):
        one = done[index]
        if one.known:
            continue
        stage = expected(one, done[:index], forms, reached)
        if stage is not None and rank(stage) > reached:
            why, detail = evidence(one, done[:index], forms, stage)
            missing = _left_out(one, done, forms, given, stage)
            return Place(index, stage, why, "; ".join(filter(None, [missing, detail])))
    return _too_short(done, forms) or _unlike(done, forms, given, reached)


def _coarse(done: Sequence[Done], dtype: str) -> Iterator[Place]:
    """The first stage that is right but for the precision that the code took for it."""
    for index, one in enumerate(done):
        if one.dtype != dtype and one.stages and rank(one.stages[-1]) >= 0:
            detail = f"computed in {one.dtype}, and asked in {dtype}"
            yield Place(index, one.stages[-1], "precision", detail)
            return


def _left_out(
    one: Done, done: Sequence[Done], forms: Forms, given: Sequence[str], stage: str
) -> str:
    """What a product needs and no line gives, in words."""
    if one.name not in PRODUCTS:
        return ""
    known = {stage for other in done for m in other.matches for stage in _stages_in(m)} | set(given)
    needed = _needed(forms, -1) if stage == "scores" else ["weights"] if stage == "context" else []
    missing = [STAGE_WORDS[name] for name in needed if name not in known]
    return f"no line gives {' and '.join(missing)}" if missing else ""


def _too_short(done: Sequence[Done], forms: Forms) -> Place | None:
    """A map that lacks its last or first key or query."""
    for index, one in enumerate(done):
        if not one.matches and one.values and one.values[0].dtype.kind == "f":
            found = matches(one.values, tuple(forms.cut(one.dtype)))
            if found and found[0].form.stage is not None:
                return Place(index, found[0].form.stage, "values", found[0].form.label)
    return None


def _unlike(done: Sequence[Done], forms: Forms, given: Sequence[str], reached: int) -> Place | None:
    """The first product of wrong shape where no scores are; else the last result, that should be
    the output."""
    known = {stage for one in done for m in one.matches for stage in _stages_in(m)} | set(given)
    products = [
        i for i, one in enumerate(done) if one.name in PRODUCTS and not one.matches and one.values
    ]
    if reached < 0:
        for stage in ("q", "k"):
            fits = [
                index
                for index, one in enumerate(done[: products[0] if products else None])
                if one.outer and not one.matches and one.name in SPLITTING | LAYERS and one.values
            ]
            if stage not in known and fits:
                shape = done[fits[0]].values[-1].shape
                return Place(fits[0], stage, "values", shapes(shape, forms, stage))
        inner = [index for index in products if done[index].values[-1].ndim > 1]
        if inner and {"q", "k"} <= known:
            shape = done[inner[0]].values[-1].shape
            return Place(inner[0], "scores", "values", shapes(shape, forms, "scores"))
    results = [index for index, one in enumerate(done) if one.outer and one.values]
    if results and (stage := forms.question.stage) not in done[results[-1]].stages:
        labels = [m.form.label for m in done[results[-1]].matches]
        values = done[results[-1]].values[-1]
        whole = np.isfinite(values).all() and np.array_equal(values, np.trunc(values))
        other = "its values are whole numbers" if whole else "its values are others"
        detail = f"what is returned is {', '.join(labels)}" if labels else other
        return Place(results[-1], stage, "values", detail)
    return None


def _among_given(
    done: Sequence[Done], forms: Forms, given: Sequence[str], reached: int
) -> Place | None:
    """The first place among q, k and v: their numbers in a wrong arrangement, or other numbers."""
    needed = _needed(forms, reached)
    end = _end_of(done, forms, reached)
    for index, one in enumerate(done[:end]):
        if one.matches or one.name not in SPLITTING | REPEATING:
            continue
        for stage in needed:
            if any(rearranged(run, forms.of(stage, one.dtype)) for run in one.floats):
                return Place(index, stage, "arrangement", mixed(stage))
    known = {stage for one in done for m in one.matches for stage in _stages_in(m)} | set(given)
    for stage in needed:
        if stage in known:
            continue
        if (at := _instead_of(stage, done[:end], forms)) is not None:
            return Place(at, stage, *evidence(done[at], done[:at], forms, stage))
        if (again := _made_twice(stage, done[:end])) is not None:
            at, other = again
            return Place(at, stage, "values", f"they are {STAGE_WORDS[other]} once more")
    return None


def _instead_of(stage: str, done: Sequence[Done], forms: Forms) -> int | None:
    """The first result of a stage's size that is nothing known; None where there is none.

    A rotated stage follows the one that is rotated. Of any other, all that comes before some
    result that is known belongs to that.
    """
    size = forms.stages[stage].size
    fits = [
        index
        for index, one in enumerate(done)
        if one.outer and not one.matches and any(run.size == size for run in one.floats)
    ]
    if stage in ("x", "x_positions"):
        fits = [index for index in fits if done[index].name in ADDING]
    turned = stage.removesuffix("_rotated")
    if turned != stage:
        begin = next((i for i, one in enumerate(done) if turned in one.stages), 0)
        return next((index for index in fits if index > begin), None)
    kept = [i for i in fits if not any(one.matches and one.outer for one in done[i : fits[-1]])]
    return kept[0] if kept else None


def _made_twice(stage: str, done: Sequence[Done]) -> tuple[int, str] | None:
    """The second projection that gives what one has given before, and what that is: it stands
    where `stage` should be, which is q, k or v and has no projection."""
    made: dict[str, int] = {}
    for index, one in enumerate(done if stage in ("q", "k", "v") else ()):
        if one.name not in LAYERS:
            continue
        given = [name for name in one.stages if name in ("q", "k", "v")]
        if len(given) == 1 and given[0] in made:
            return index, given[0]
        made |= dict.fromkeys(given, index)
    return None


def _stages_in(match: Match) -> tuple[str, ...]:
    """The stages that a form holds; q × scale holds q."""
    if match.form.stage is None:
        return (match.form.label.split(" × ")[0],)
    return tuple(match.form.stage.split(", "))


def _needed(forms: Forms, reached: int) -> list[str]:
    """What the next stage is made of: q and k for scores, v for the context."""
    if reached >= 0:
        return ["v"] if rank("weights") <= reached < rank("context") else []
    stages, given = forms.stages, forms.question.given
    early = [name for name in ("x_positions",) if name in stages]
    if "x" in given and "x" in stages and not np.array_equal(given["x"], stages["x"]):
        early = ["x"]  # positions that the code adds to it
    return [*early, "q", "k", *(name for name in ("q_rotated", "k_rotated") if name in stages)]


def _end_of(done: Sequence[Done], forms: Forms, reached: int) -> int:
    """The first product that should give scores, or the context; all where there is none."""
    wanted = forms.stages["scores"].size if reached < 0 else forms.stages["context"].size
    for index, one in enumerate(done):
        if one.name in PRODUCTS and not one.matches and _is(one.final, wanted):
            return index
        if one.name in WHOLE:
            return index
    return len(done)


def _is(values: Array | None, size: int) -> bool:
    return values is not None and values.dtype.kind == "f" and values.size == size
