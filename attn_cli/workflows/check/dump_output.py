"""Outputs of a dump: whether an array called output or context is the context, or merged heads."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from attn_cli.core.layer import merge_heads
from attn_cli.core.names import looks_like_parameter
from attn_cli.core.results_dump import StageCheck
from attn_cli.core.results_mistakes import Diagnosis
from attn_cli.recognize.stage_dump import StageDump

Array = NDArray[Any]
PROJECTED = "a projection that the file does not hold may lie between"


def as_context(dump: StageDump) -> tuple[StageDump, str | None]:
    """The dump with its output as the stage that it is, and which one; None: nothing is renamed.

    Without an output matrix in the file, an output as wide as all heads are the merged heads, and
    with one head the context itself.
    """
    heads, v = dump.sizes.get("H", 1), dump.stages.get("v")
    parameters = any(looks_like_parameter(name) for name in dump.dump.arrays)
    if parameters or v is None or "merged" in dump.stages:
        return dump, None
    name = _flat(dump, heads)
    if name is None or dump.stages[name].shape[-1] * _cut(name, heads) != heads * v.shape[-1]:
        return dump, None
    array = dump.stages[name]
    if heads == 1 and "x" not in dump.stages:
        return _renamed(dump, name, "context", array[:, None]), "context"
    flat = array if name == "output" else merge_heads(array)
    return _renamed(dump, name, "merged", flat), "merged"


def _flat(dump: StageDump, heads: int) -> str | None:
    """The stage whose heads may have been merged by the program itself."""
    if "output" in dump.stages:
        alone = heads > 1 or "context" not in dump.stages
        return "output" if alone else None
    if "context" not in dump.stages or heads == 1:
        return None
    as_stored = dump.dump.arrays[dump.names["context"]]
    flat = as_stored.shape[-1] == dump.stages["context"].shape[-1] * heads
    return "context" if as_stored.ndim < 4 and flat else None


def _cut(name: str, heads: int) -> int:
    """Into how many heads the array was cut as it was read."""
    return heads if name == "context" else 1


def _renamed(dump: StageDump, name: str, stage: str, array: Array) -> StageDump:
    stages = {n: a for n, a in dump.stages.items() if n != name} | {stage: array}
    names = {n: t for n, t in dump.names.items() if n != name} | {stage: dump.names[name]}
    return dataclasses.replace(dump, stages=stages, names=names)


def settled(
    checks: Sequence[StageCheck], diagnosis: Diagnosis, renamed: str | None
) -> tuple[StageCheck, ...]:
    """The checks, less a no that a projection may be to blame for.

    What was taken for merged heads and is not, and what no mistake explains, may be projected.
    """
    if renamed != "merged" or "merged" not in diagnosis.unexplained:
        return tuple(checks)
    return tuple(
        dataclasses.replace(check, verdict="not checked", reason=PROJECTED, result=None)
        if check.stage == "merged" and check.verdict == "inconsistent"
        else check
        for check in checks
    )
