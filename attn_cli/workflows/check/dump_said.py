"""What check dump says beside its table: readings, assumptions, and why a stage was not checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.budget import FACTOR
from attn_cli.core.findings import Finding, Place, Severity, note
from attn_cli.core.masks import BoolArray
from attn_cli.core.onestep import HIDDEN
from attn_cli.core.results_dump import StageCheck
from attn_cli.core.rounding import precision
from attn_cli.masks.file import Stored
from attn_cli.recognize.known_masks import known_masks
from attn_cli.recognize.stage_dump import ORDER, StageDump
from attn_cli.workflows.check.dump_stages import Held
from attn_cli.workflows.diff_question import Asked

Array = NDArray[Any]

# What each stage is made of, by the formula.
BEFORE: Mapping[str, tuple[str, ...]] = {
    "x_positions": ("x",),
    **dict.fromkeys("qkv", ("x_positions",)),
    "q_rotated": ("q",),
    "k_rotated": ("k",),
    "scores": ("q_rotated", "k_rotated"),
    "scaled": ("scores",),
    "softcapped": ("scaled",),
    "biased": ("softcapped",),
    "masked": ("biased",),
    "lse": ("masked",),
    "weights": ("masked",),
    "context": ("weights", "v"),
    "merged": ("context",),
    "output": ("merged",),
}


def made_from(stage: str, held: Mapping[str, Array]) -> tuple[str, ...]:
    """The stages of the file that a stage is recomputed from: the nearest that it holds."""
    found: set[str] = set()
    for before in BEFORE.get(stage, ()):
        found |= {before} if before in held else set(made_from(before, held))
    return tuple(name for name in ORDER if name in found)


def why_not(stage: str, held: Mapping[str, Array], question: Asked) -> str:
    """Why a stage was not recomputed; "" where it is what the others are made of."""
    sources = made_from(stage, held)
    if not sources:
        return ""
    if stage in ("q", "k", "v", "x_positions"):
        return "what makes it of x is not in the file"
    if stage == "output":
        return "the output projection is not in the file"
    if "scaled" in question.unknown and "q" not in sources:
        return "the scale is not known without q and k: --scale says it"
    lacking = [name for name in ("q", "k", "v") if name not in held]
    return f"{' and '.join(lacking)} are not in the file" if lacking else "not to be recomputed"


def assumed_mask(question: Asked, dump: StageDump) -> tuple[Asked, Finding | None]:
    """Where keys are hidden and nobody said which, the file's own pattern is taken as right."""
    if "masked" not in question.unknown:
        return question, None
    masked, weights = dump.stages.get("masked"), dump.stages.get("weights")
    if masked is not None:
        hidden = masked <= HIDDEN
    elif weights is not None:
        hidden = weights == 0
    else:
        return question, None
    inputs = question.inputs
    seen = np.broadcast_to(~hidden, inputs.shape)
    chosen = dataclasses.replace(inputs, mask=Stored(seen, inputs.q_offset or 0))
    known = dataclasses.replace(
        question, inputs=chosen, unknown=question.unknown - frozenset({"masked"})
    )
    what = "weight 0" if masked is None else "a very negative masked score"
    pattern, usual = _pattern(seen)
    words = f"no mask was given: keys with {what} are taken as rightly hidden{pattern}"
    severity: Severity = "note" if usual else "warning"
    where = Place(stage="masked")
    return known, Finding("assumed-mask", severity, f"{words}; --mask says which are", where)


def _pattern(seen: BoolArray) -> tuple[str, bool]:
    """What the pattern is, where all items and heads have one that has a name, and whether it is
    that as it stands."""
    if not (seen == seen[:1, :1]).all():
        return "", True
    matches = known_masks(seen[0, 0], additive=False)
    return (f": {matches[0].words}", matches[0].as_it_stands) if matches else ("", True)


def said(held: Held, question: Asked, renamed: str | None) -> Iterator[Finding]:
    """Conventions of the file."""
    if held.scaled:
        words = "its scores already hold the scale: the next stage is made from them without it"
        if "scaled" in question.unknown:
            words = "the stages behind the scores follow from them without a scale"
        yield note("scaled-scores", words, Place(stage="scores"))
    if renamed == "context":
        yield note("output", "one head and no projection: the output is read as the context")
    if renamed == "merged":
        yield note("output", "no projection in the file: read as the heads side by side")
    by_unit: dict[float, list[str]] = {}
    for name, unit in held.units.items():
        by_unit.setdefault(unit, []).append(name)
    for unit, names in by_unit.items():
        decimals = round(-np.log10(unit))
        yield note(
            "decimals",
            f"{', '.join(names)} written with {decimals} decimals: the last one is allowed for",
        )


def row_sums(held: Held, question: Asked, checks: Sequence[StageCheck]) -> Iterator[Finding]:
    """Rows that do not sum to 1, where the weights could not be recomputed."""
    weights = held.stages.get("weights")
    checked = any(c.stage == "weights" and c.result is not None for c in checks)
    if weights is None or checked or question.inputs.sinks is not None:
        return
    seen = question.inputs.counted()
    rows = np.ones(weights.shape[:3], bool) if seen is None else seen.any(-1)
    sums = weights.astype(np.float64).sum(-1)[rows]
    keys = weights.shape[-1]
    room = FACTOR * keys * precision(held.dtype).eps + keys * held.units.get("weights", 0.0)
    off = ~(np.abs(sums - 1) <= room)
    if off.any():
        ends = f"{np.min(sums):.6g} to {np.max(sums):.6g}"
        words = f"{int(off.sum()):,} of {sums.size:,} rows of weights do not sum to 1: {ends}"
        yield Finding("row-sums", "warning", words, Place(stage="weights"))


def mask_note(held: Held, question: Asked) -> Iterator[Finding]:
    """Rows that see nothing."""
    seen = question.inputs.counted()
    weights = held.stages.get("weights")
    if seen is None or weights is None or seen.any(-1).all():
        return
    rows = weights[~seen.any(-1)]
    held_as = "NaN" if np.isnan(rows).all() else "0" if not rows.any() else "numbers"
    words = f"{len(rows):,} rows see no key; the file has {held_as} there, which is not judged"
    yield note("empty-rows", words, Place(stage="weights"))


def to_float32(coarse: Sequence[str]) -> Iterator[Finding]:
    """Stages of a float64 file that follow as far as float32 goes."""
    if coarse:
        follow = "follows" if len(coarse) == 1 else "follow"
        words = f"{', '.join(coarse)} {follow} to the precision of float32, not to that of float64"
        yield note("to-float32", words, Place(stage=coarse[0]))
