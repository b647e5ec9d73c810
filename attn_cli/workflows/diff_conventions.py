"""Conventions of a dump: whether its scores hold the scale already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.onestep import Rule
from attn_cli.core.results_diff import SIDES, Side
from attn_cli.core.slicing import one_head
from attn_cli.core.step_budget import fault_free
from attn_cli.recognize.stage_dump import StageDump
from attn_cli.recognize.stage_layout import OF_KEYS, OVER_KEYS, WITHOUT_HEADS
from attn_cli.workflows.diff_question import Asked, side_rule

Array = NDArray[Any]


def conventions_of(dumps: Mapping[Side, StageDump], question: Asked) -> dict[Side, bool]:
    """Of each side whether its scores hold the scale already; one without scores has the other's.

    They do where that makes the stages behind them fit; where none is there to tell, where they are
    q · kᵀ times the scale.
    """
    narrowed = one_head(question.inputs, 0, 0)
    group = question.inputs.shape[1] // question.inputs.kv_heads
    scale = question.inputs.effective_scale
    found = {}
    for side in SIDES:
        held = cut(dumps[side].stages, 0, 0, group)
        misfits = []
        for scaled in (False, True):
            rule = side_rule(question, narrowed, scores_scaled=scaled)
            misfits.append(_misfits(rule, held, dumps[side].dtype))
        found[side] = "scores" in held and scale != 1 and sum(misfits[1]) < sum(misfits[0])
    for side, other in (SIDES, SIDES[::-1]):
        if "scores" not in dumps[side].stages:
            found[side] = found[other]
    return found


def _misfits(rule: Rule, held: Mapping[str, Array], dtype: str) -> tuple[int, bool]:
    """How many stages behind the scores do not fit, and whether the scores do not fit q and k."""
    wrong, off = 0, False
    for name, (made, budget) in fault_free(rule, held, dtype=dtype).items():
        if name == "scores":
            off = not _fits(held[name], made, budget)
        elif name in (*OVER_KEYS, "lse"):
            wrong += not _fits(held[name], made, budget)
    return wrong, off


def _fits(array: Array, made: Array, budget: Array) -> bool:
    with np.errstate(invalid="ignore"):
        return bool((np.abs(array - made)[np.isfinite(made)] <= budget.max()).all())


def cut(stages: Mapping[str, Array], b: int, h: int | None, group: int) -> dict[str, Array]:
    """One item of every stage, or one head of those that have heads."""
    cut = {}
    for name, array in stages.items():
        if h is None:
            cut[name] = array[b : b + 1]
        elif name not in WITHOUT_HEADS:
            at = h // group if name in OF_KEYS else h
            cut[name] = array[b : b + 1, at : at + 1]
    return cut
