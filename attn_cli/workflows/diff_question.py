"""The question behind two dumps: what they were computed from, as far as they or options say."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.difference import coarser
from attn_cli.core.dump import Dump
from attn_cli.core.findings import Finding
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.onestep import Rule, next_stages, rule_of
from attn_cli.core.results import InputSummary
from attn_cli.core.results_diff import SIDES, Side
from attn_cli.core.rounding import precision
from attn_cli.core.settings import Settings
from attn_cli.core.step_budget import floor, step_budget
from attn_cli.recognize import understand
from attn_cli.recognize.one_array import load_array
from attn_cli.recognize.stage_dump import StageDump
from attn_cli.workflows.diff_options import DiffOptions

Array = NDArray[Any]
GIVEN = ("x", "q", "k", "v")


@dataclass(frozen=True, slots=True)
class Asked:
    """What both dumps answer: inputs, of which q, k and v may be stand-ins, and unknown steps.

    `first` is the side whose stages the oracle starts from where both have them: the finer one, of
    two alike the one that holds more of q, k and v.
    """

    inputs: AttentionInputs
    settings: Settings
    summary: InputSummary | None  # None where q or k is a stand-in
    first: Side
    unknown: frozenset[str]
    findings: tuple[Finding, ...]


def asked(dumps: Mapping[Side, StageDump], options: DiffOptions) -> Asked:
    """The question of two dumps of the same sizes.

    Masks, biases, scale and other settings come from either file, the first side's before the
    other's, and from the options before both.
    """
    first = min(SIDES, key=lambda side: _rank(dumps[side]))
    dump = _question(dumps, first)
    choices = options.choices
    if "x" not in dump.arrays:
        choices = replace(choices, layout="bhld", heads=None, kv_heads=None)
    reading = understand(dump, choices, load=load_array)
    inputs = reading.inputs
    unknown = set()
    says_scale = options.choices.scale is not None or "scale" in dump.settings
    if not (_knows_width(dumps) or says_scale):
        unknown.add("scaled")
    if not inputs.masks and any(_hides(it) for it in dumps.values()):
        unknown.add("masked")
    said = [finding for finding in reading.findings if finding.code not in QUIET]
    summary = reading.summary if _has_qk(dumps) else None
    return Asked(inputs, reading.settings, summary, first, frozenset(unknown), tuple(said))


# What is said where a file is read for a run, and is no news of a comparison.
QUIET = frozenset({"names", "layout", "ignored-arrays", "stages", "dtype", "one-array"})


def _rank(dump: StageDump) -> tuple[int, int]:
    held = sum(role in dump.stages for role in ("q", "k", "v"))
    return -precision(dump.dtype).bits, -held


def _knows_width(dumps: Mapping[Side, StageDump]) -> bool:
    """Whether d_k, and so the usual scale, is known."""
    return any("d_k" in dump.sizes for dump in dumps.values())


def _has_qk(dumps: Mapping[Side, StageDump]) -> bool:
    """Whether some side shows q, and some side k."""
    return {"q", "k"} <= {name for dump in dumps.values() for name in dump.stages}


def _hides(dump: StageDump) -> bool:
    """Whether some score or weight shows that keys were hidden, by whatever mask."""
    masked, weights = dump.stages.get("masked"), dump.stages.get("weights")
    if masked is not None and bool((masked <= -1e4).any()):
        return True
    return weights is not None and bool((weights == 0).any())


def _question(dumps: Mapping[Side, StageDump], first: Side) -> Dump:
    """The file that a run on these dumps would read."""
    ours = dumps[first]
    theirs = next(dumps[side] for side in SIDES if side != first)
    if "x" in ours.dump.axes and any(name.startswith("W_") for name in ours.dump.arrays):
        return ours.dump
    extras = {**theirs.extras, **ours.extras}
    arrays = {**extras, **_qkv({**theirs.stages, **ours.stages}, {**theirs.sizes, **ours.sizes})}
    return Dump(
        source=ours.dump.source,
        format=ours.dump.format,
        arrays=arrays,
        dtypes={name: array.dtype.name for name, array in arrays.items()},
        sha256=ours.dump.sha256,
        texts={**theirs.dump.texts, **ours.dump.texts},
        settings={
            name: value
            for name, value in {**theirs.dump.settings, **ours.dump.settings}.items()
            if name not in ("heads", "kv_heads", "layout", "weights_layout")
        },
        axes=dict.fromkeys("qkv", ("batch", "head", "length", "width")),
    )


def _qkv(stages: Mapping[str, Array], sizes: Mapping[str, int]) -> dict[str, Array]:
    """q, k and v where they are, and arrays of zeros of their sizes in their places."""
    B, H = sizes.get("B", 1), sizes.get("H", sizes.get("Hkv", 1))
    Hkv, L, S = sizes.get("Hkv", H), sizes.get("L", 1), sizes.get("S", sizes.get("L", 1))
    d_k, d_v = sizes.get("d_k", 1), sizes.get("d_v", 1)
    shapes = {"q": (B, H, L, d_k), "k": (B, Hkv, S, d_k), "v": (B, Hkv, S, d_v)}
    return {name: stages.get(name, np.zeros(shape)) for name, shape in shapes.items()}


def side_rule(question: Asked, part: AttentionInputs, *, scores_scaled: bool) -> Rule:
    """How a side goes from stage to stage; nothing is given but what it shows itself.

    `scores_scaled`: its scores hold the scale already.
    """
    rule = rule_of(part)
    factor, scale = 1.0, part.effective_scale
    if scores_scaled:
        factor, scale = scale, factor
    unknown = question.unknown - ({"scaled"} if scores_scaled else set())
    return dataclasses.replace(
        rule, given={}, scale=scale, factor=factor, unknown=unknown, every=True
    )


def starts(rule: Rule, held: Mapping[str, Array], order: tuple[str, ...]) -> tuple[str, ...]:
    """The stages of `held` that no other one makes, in the order of the formula.

    A tiny stand-in would do, but what can be made depends on shapes alone: it is made once.
    """
    found: list[str] = []
    for name in order:
        if name in held:
            given = {start: held[start] for start in found}
            if name not in next_stages(dataclasses.replace(rule, given=given), {}):
                found.append(name)
    return tuple(found)


class ChainQuestion:
    """One part's answer, in float64 from the stages that it starts from, and budgets around it."""

    def __init__(
        self, rule: Rule, given: Mapping[str, Array], *, coarsest: str | None = None
    ) -> None:
        """`coarsest`: the precision in which some of what is given was rounded, if it was.

        What a finer side made of the same numbers before they were rounded may be as far off.
        """
        self._rule, self._coarsest = dataclasses.replace(rule, given=given), coarsest
        self.oracle: Mapping[str, Array] = next_stages(self._rule, {})
        self._budgets: dict[str, Mapping[str, Array]] = {}

    def budget(self, dtype: str) -> Mapping[str, Array]:
        if self._coarsest is not None:
            dtype = coarser(dtype, self._coarsest)
        if dtype not in self._budgets:
            self._budgets[dtype] = step_budget(self._rule, {}, self.oracle, dtype=dtype)
        return self._budgets[dtype]


class NoQuestion:
    """Stages that nothing is known of: no oracle, and a budget of a few ulp of their largest."""

    def __init__(self, stages: Mapping[str, Array]) -> None:
        self.oracle: Mapping[str, Array] = {}
        self._stages = stages

    def budget(self, dtype: str) -> Mapping[str, Array]:
        return floor(self._stages, dtype)
