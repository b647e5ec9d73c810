"""Influence: which tokens move which rows, where no name says that the code looks back only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.masks import BoolArray
from attn_cli.diagnosis.answers import observe
from attn_cli.diagnosis.infer.trials import Trials
from attn_cli.diagnosis.meaning import ask
from attn_cli.diagnosis.plan import Plan
from attn_cli.diagnosis.probes.probe import gaps
from attn_cli.diagnosis.question import Question

Array = NDArray[Any]

STILL = 1e-5  # of the largest value: what moves less has not moved
AGAIN = -1.5  # × the numbers of a token are other numbers of the same size


def looks_back(plan: Plan, trials: Trials) -> str | None:
    """How what the code does shows that it is meant to be causal; None where it does not.

    So it is where no row depends on a later token and the last one does on an earlier; or where,
    besides all earlier ones, a row depends on the very next token: a triangle that is one off.
    No other mistake hides exactly that, so code that is not meant to be causal is not taken for it.
    """
    if "context" in plan.call.roles:
        return None
    moved = _influence(plan, trials)
    if moved is None:
        return None
    earlier = np.tril(np.ones_like(moved), -1)
    later, far = np.triu(moved, 1), np.triu(moved, 2)
    if not later.any():
        return "no row depends on a later token" if moved[-1, :-1].any() else None
    if far.any() or not moved[earlier].all():
        return None
    return "no row depends on what comes after the next token"


def _influence(plan: Plan, trials: Trials) -> BoolArray | None:
    """(rows, tokens): which rows move when a token, or its key and value, has other numbers."""
    question = trials.question(plan, plan.call.layouts[0])
    right = _output(plan, trials, question)
    if right is None:
        return None
    length = right.shape[-2]
    moved = np.zeros((length, length), dtype=bool)
    for token in range(length):
        came = _output(plan, trials, _changed(plan, trials, question, token))
        if came is None or came.shape != right.shape:
            return None
        apart = gaps(came, right) > STILL * np.nanmax(np.abs(right), initial=1e-30)
        moved[:, token] = np.moveaxis(apart, -2, 0).reshape(length, -1).any(-1)
    return moved


def _changed(plan: Plan, trials: Trials, question: Question, token: int) -> Question:
    """The question with other numbers for one token; queries stay as they are."""
    given = dict(question.given)
    for role in ("x", "k", "v"):
        if role in given:
            array = given[role].copy()
            array[..., token, :] *= AGAIN
            given[role] = array
    return ask(plan, trials.parameters, given, name="influence", layout=question.layout)


def _output(plan: Plan, trials: Trials, question: Question) -> Array | None:
    return observe(plan, question, trials.call(plan, question)).output
