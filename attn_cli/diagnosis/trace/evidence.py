"""Evidence: what can be said of values that stand where a stage should be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.code_trace import STAGE_WORDS, Why
from attn_cli.core.compare import compare
from attn_cli.core.masks import BoolArray
from attn_cli.diagnosis.trace.kinds import Done
from attn_cli.diagnosis.trace.labels import nearest, rearranged
from attn_cli.diagnosis.trace.stages import MAPS, Forms

Array = NDArray[Any]

# What is made of scores, in words.
_MADE = {"masked": "", "weights": "the softmax of ", "context": "the context of "}


def evidence(one: Done, before: Sequence[Done], forms: Forms, stage: str) -> tuple[Why, str]:
    """Why it is not the stage: how its values differ, or that their arrangement does."""
    candidates = forms.of(stage, one.dtype)
    if any(rearranged(run, candidates) for run in one.floats):
        return "arrangement", mixed(stage)
    found = [near for run in one.floats if (near := nearest(run, candidates)) is not None]
    values = one.final
    assert values is not None
    if not found:
        return "values", shapes(values.shape, forms, stage)
    diff, back, form = min(found, key=lambda near: near[0].beyond)
    at = diff.where
    where = ", ".join(f"{axis} {i}" for axis, i in zip(form.axes, at, strict=True))
    numbers = (
        f"{_number(float(back[at]))} at {where}, and {_number(float(form.array[at]))} is right"
    )
    words = [what for what in (_instead(back, forms, stage, one.dtype),) if what]
    if stage == "weights" and not words and (sums := _summed(values, before)):
        words = [sums]
    count = f"{diff.beyond:,} of {back.size:,} values differ: {numbers}"
    return "values", "; ".join([*words, count])


def _instead(values: Array, forms: Forms, stage: str, dtype: str) -> str:
    """What the values are where steps were left out: the mask on raw scores, their softmax, …"""
    if stage not in _MADE:
        return ""
    form = forms.of(stage, dtype)[0]
    for name in (name for name in MAPS if name in forms.stages):
        for what, scores in _masked(forms, name):
            if stage == "masked" and scores is forms.stages[name]:
                continue
            made = scores if stage == "masked" else _softmax(scores)
            if stage == "context":
                group = forms.question.shape[1] // forms.question.inputs.kv_heads
                made = made @ forms.stages["v"].repeat(group, 1)
            rows: BoolArray = np.asarray(np.isfinite(made).all(-1, keepdims=True))
            if stage != "masked" and not rows.any():
                continue
            meant = replace(form, array=made, rows=None if stage == "masked" else rows)
            off = compare(meant.made_alike(values), made, budget=form.budget, dtype="float64")
            if off.verdict != "different":
                return f"they are {_MADE[stage]}{what}"
    return ""


def _masked(forms: Forms, name: str) -> Iterator[tuple[str, Array]]:
    """A map without the mask, under it, and under its contrary."""
    scores, words, hidden = forms.stages[name], f"the {STAGE_WORDS[name]}", forms.hidden
    yield words, scores
    if hidden is not None and name != "masked":
        yield f"{words} under the mask", np.where(hidden, -np.inf, scores)
        yield f"{words} with what is visible hidden", np.where(hidden, scores, -np.inf)


def _softmax(scores: Array) -> Array:
    with np.errstate(invalid="ignore"):
        exp = np.exp(scores - scores.max(-1, keepdims=True))
        weights: Array = exp / exp.sum(-1, keepdims=True)
    return weights


def _number(value: float) -> str:
    return "NaN" if np.isnan(value) else f"{value:.5g}".replace("inf", "∞").replace("-", "−")


def _summed(values: Array, before: Sequence[Done]) -> str:
    """Over which axis weights sum to 1 that should over keys, in the axes of an earlier map."""
    axes = next(
        (
            m.axes
            for one in reversed(before)
            for m in one.matches
            if len(m.axes) == values.ndim and one.values and one.values[-1].shape == values.shape
        ),
        None,
    )
    if axes is None or "key" not in axes:
        return ""
    ones = [
        name
        for axis, name in enumerate(axes)
        if name and np.allclose(values.sum(axis), 1, rtol=0, atol=1e-3)
    ]
    if ones and "key" not in ones:
        return f"they sum to 1 over {ones[0]}, not over key"
    return "" if ones else "they do not sum to 1 over key"


def mixed(stage: str) -> str:
    return f"the numbers of {STAGE_WORDS[stage]}, in an order that mixes its axes"


def shapes(shape: Sequence[int], forms: Forms, stage: str) -> str:
    right = forms.stages[stage].shape
    return f"it gives shape {tuple(shape)}, and {STAGE_WORDS[stage]} have {right}"
