"""A dump of stages: which array is which stage, in which precision, arranged as in a trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.dump import Dump
from attn_cli.core.findings import Finding, note
from attn_cli.core.names import CORE_WORDS, INPUT_WORDS, STAGE_WORDS, recognise
from attn_cli.core.results_diff import Side
from attn_cli.core.rounding import PRECISIONS, round_to
from attn_cli.errors import InputError, UnsupportedError
from attn_cli.recognize.listing import fit_to_print
from attn_cli.recognize.stage_layout import Sizes, Solution, arranged, find_layouts

Array = NDArray[Any]

ORDER = (
    *("x", "x_positions", "q", "k", "v", "q_rotated", "k_rotated"),
    *("scores", "scaled", "softcapped", "biased", "masked", "lse", "weights"),
    *("context", "merged", "output"),
)
EXTRAS = tuple(role for role in INPUT_WORDS if role not in (*CORE_WORDS, "context"))
SHORT = ("bfloat16", "float16")  # precisions that a wider dtype may hide


@dataclass(frozen=True, slots=True, eq=False)
class StageDump:
    """One side: its stages as a trace has them, and what else the file says of the computation.

    `dtype` is the precision that it was computed in, `told` how that is known where it is not the
    arrays' dtype. `extras` are masks, biases and sinks by attn's word; `sizes` are B, H, Hkv, L, S
    as far as the arrays tell.
    """

    dump: Dump
    stages: Mapping[str, Array]
    names: Mapping[str, str]
    extras: Mapping[str, Array]
    dtype: str
    told: str
    sizes: Sizes
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class NamedDump:
    """A dump whose arrays have attn's words, not arranged yet."""

    dump: Dump
    side: Side
    stages: Mapping[str, str]  # role → the file's name
    extras: Mapping[str, str]
    findings: tuple[Finding, ...]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {role: self.dump.arrays[name].shape for role, name in self.stages.items()}


def named(dump: Dump, side: Side, given: Mapping[str, str]) -> NamedDump:
    """Which array is which stage, by the table of synonyms and by `given` (theirs → ours).

    Raises InputError where `given` names an array of this side that is not there, where two arrays
    mean one stage, and for an array of no numbers.
    """
    mapped = _mapped(dump, side, given)
    rest = [name for name in dump.arrays if name not in mapped.values()]
    rest = [name for name in rest if not _beside(name)]
    stages = {**recognise(rest, STAGE_WORDS), **mapped}
    inputs = recognise([name for name in rest if name not in stages.values()], INPUT_WORDS)
    extras = {role: name for role, name in inputs.items() if role in EXTRAS}
    extras |= {role: name for role, name in mapped.items() if role in EXTRAS}
    chosen = {role: stages[role] for role in ORDER if role in stages}
    chosen = _without_copies(dump, chosen)
    _check(dump, chosen)
    return NamedDump(dump, side, chosen, extras, tuple(_said(dump, side, chosen, extras)))


def _mapped(dump: Dump, side: Side, given: Mapping[str, str]) -> dict[str, str]:
    """ours → theirs, of what --map says of this side."""
    found: dict[str, str] = {}
    for theirs, ours in given.items():
        where, colon, name = theirs.partition(":")
        own = bool(colon) and where in ("left", "right")
        if own and where != side:
            continue
        name = name if own else theirs
        if name not in dump.arrays:
            if own:
                raise InputError(
                    f"--map names {fit_to_print(name)}, which {dump.source} does not hold",
                    hint=f"it holds {', '.join(map(fit_to_print, list(dump.arrays)[:12]))}",
                )
            continue
        if ours in found:
            raise InputError(f"{found[ours]!r} and {name!r} both mean {ours}")
        found[ours] = name
    return found


def _beside(name: str) -> bool:
    """Whether the name is of the projections and tables that attn saves beside stages."""
    return name.startswith(("W_", "b_")) or name == "memory"


def _without_copies(dump: Dump, stages: dict[str, str]) -> dict[str, str]:
    """Without an output of four axes, which is the context by another name."""
    if "output" not in stages or dump.arrays[stages["output"]].ndim != 4:
        return stages
    name = stages.pop("output")
    if "context" not in stages:
        stages["context"] = name
    return {role: stages[role] for role in ORDER if role in stages}


def _check(dump: Dump, stages: Mapping[str, str]) -> None:
    if not stages:
        known = ", ".join(map(fit_to_print, list(dump.arrays)[:12]))
        raise InputError(
            f"{dump.source}: no array has the name of a stage: it holds {known}",
            hint="--map THEIRS=OURS says what an array is, such as --map logits=scores",
        )
    for role, name in stages.items():
        array = dump.arrays[name]
        which = f"{dump.source}: {fit_to_print(name)} ({role}) of shape {array.shape}"
        if array.dtype.kind not in "iuf":
            raise InputError(
                f"{which} is {array.dtype}: expected numbers",
                hint="--map THEIRS=OURS says what an array is, such as --map allowed=mask",
            )
        if not array.size:
            raise InputError(f"{which} is empty: expected one element at least on every axis")


def _said(
    dump: Dump, side: Side, stages: Mapping[str, str], extras: Mapping[str, str]
) -> Iterator[Finding]:
    yield from dump.findings
    other = {role: name for role, name in {**stages, **extras}.items() if name != role}
    if other:
        words = ", ".join(f"{fit_to_print(name)} as {role}" for role, name in other.items())
        yield note("names", f"{side}: read {words}")
    used = {*stages.values(), *extras.values()}
    left = [name for name in dump.arrays if name not in used and not _beside(name)]
    if left and not dump.axes:
        yield note("ignored-arrays", f"{side}: not used: {', '.join(map(fit_to_print, left[:12]))}")


def arrange(
    dump: NamedDump, *, layout: str | None, known: Sizes, computed: str | None
) -> StageDump:
    """The stages as a trace has them, in the precision that they were computed in."""
    solution = _solution(dump, layout, known)
    stages = {
        role: _numbers(arranged(dump.dump.arrays[name], solution.axes[role]))
        for role, name in dump.stages.items()
    }
    dtype, told = _precision(dump, stages, computed)
    return StageDump(
        dump=dump.dump,
        stages=stages,
        names=dump.stages,
        extras={role: dump.dump.arrays[name] for role, name in dump.extras.items()},
        dtype=dtype,
        told=told,
        sizes=solution.sizes,
        findings=(*dump.findings, *_said_of_layout(dump, solution)),
    )


def _solution(dump: NamedDump, layout: str | None, known: Sizes) -> Solution:
    """What attn itself has saved has the layout of a trace."""
    own = "bhld" if dump.dump.axes else None
    return find_layouts(dump.shapes(), layout=layout or own, known=known, source=dump.dump.source)


def _numbers(array: Array) -> Array:
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def _said_of_layout(dump: NamedDump, solution: Solution) -> Iterator[Finding]:
    words = {
        "blhd": "(batch, length, head, width)",
        "b·h": f"(batch · head, …) with {solution.sizes.get('H', 1)} heads",
        "(h·d)": "(batch, length, head · width)",
    }
    for layout, said in words.items():
        roles = [role for role, axes in solution.axes.items() if axes.layout == layout]
        if roles:
            yield note("layout", f"{dump.side}: {', '.join(roles)} read as {said}")


def _precision(
    dump: NamedDump, stages: Mapping[str, Array], computed: str | None
) -> tuple[str, str]:
    """The precision and how it is known: said, that of the arrays, or a shorter one that they fit.

    Of several dtypes it is the coarsest: what is made from it is no finer.
    """
    if computed is not None:
        return computed, "by --computed"
    dtypes = {dump.dump.dtypes[name] for role, name in dump.stages.items() if role != "lse"}
    floats = [name for name in PRECISIONS if name in dtypes]
    dtype = min(floats, key=lambda name: PRECISIONS[name].bits, default="float64")
    if dtype.startswith("float8"):
        raise UnsupportedError(
            f"{dump.dump.source} holds {dtype}, in which no rounding budget is measured",
            hint=f"--computed {dump.side}=bfloat16 says what it was computed in",
        )
    told = f"the coarsest of {', '.join(floats)}" if len(floats) > 1 else ""
    for short in SHORT:
        if PRECISIONS[short].bits < PRECISIONS[dtype].bits and _fits(stages, short):
            return short, f"every number fits {short}, though stored as {dtype}"
    return dtype, told


def _fits(stages: Mapping[str, Array], dtype: str) -> bool:
    """Whether every number of every stage is one of the precision; whole numbers prove nothing.

    An lse is not asked: programs keep it in the precision of their sums.
    """
    proven = False
    for array in (array for name, array in stages.items() if name != "lse"):
        finite = np.where(np.isfinite(array), array, 0)
        if not (round_to(finite, dtype).astype(np.float64) == finite).all():
            return False
        proven |= bool((finite != np.round(finite)).any())
    return proven
