"""Right: what a case must give, and how far right code in its precision may be off from that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.checks.edges.case import Case
from attn_cli.core.budget import measure_budget
from attn_cli.core.engine import Ask
from attn_cli.core.rounding import accumulator, precision
from attn_cli.engines import ENGINES

Array = NDArray[Any]
ORACLE = "the float64 oracle"


@dataclass(frozen=True, slots=True, eq=False)
class Right:
    """What is right, in float64, and where from.

    `output` (B, H, L, d_v) and `weights` (B, H, L, S), with budgets that broadcast to them, 0
    where the closed form must be met to the last bit. `visible` says which keys take part and
    `empty` (B, H, L) which rows see none.
    """

    words: str
    output: Array
    output_budget: Array
    weights: Array
    weights_budget: Array
    visible: NDArray[np.bool_]
    empty: NDArray[np.bool_]


def right_of(case: Case) -> Right:
    """The closed form of the case where it has one, else the numpy engine in float64.

    The oracle's empty rows play no part: what they must be is said by `empty`.
    """
    inputs = case.inputs
    trace = ENGINES["numpy"].run(inputs, Ask(keep=frozenset({"biased", "weights", "context"})))
    oracle = {name: trace[name] for name in ("biased", "weights", "context")}
    seen = inputs.visible()
    visible = np.ones(inputs.shape, bool) if seen is None else seen
    closed = case.expected
    exact = closed is not None and closed.exact
    budget = dict.fromkeys(oracle, np.zeros(())) if exact else _budget(case, oracle)
    weights = None if closed is None else closed.weights
    return Right(
        words=ORACLE if closed is None else closed.words,
        output=oracle["context"] if closed is None else closed.output,
        output_budget=budget["context"],
        weights=oracle["weights"] if weights is None else weights,
        weights_budget=budget["weights"],
        visible=visible,
        empty=np.asarray(~visible.any(-1)),
    )


def _budget(case: Case, oracle: Mapping[str, Array]) -> dict[str, Array]:
    """The budget measured on the case (`core/budget.py`), and what it misses in small arrays.

    The largest of all items and heads serves each: of a few numbers some come out exact by luck.
    A score may be off by an ulp δ of its row's largest, and moves its weight w by no more than
    w·(1 − w)·(exp(2δ) − 1). Values that are alike err alike in every order, which no permuted run
    shows: n of them may be off by n half ulp of the sum of their sizes.
    """
    right = {name: oracle[name] for name in ("weights", "context")}
    measured = measure_budget(case.inputs, right, dtype=case.dtype)
    weights = np.nan_to_num(oracle["weights"])
    scores = np.abs(np.where(np.isfinite(oracle["biased"]), oracle["biased"], 0))
    delta = precision(case.dtype).ulp(scores.max(-1, keepdims=True))  # (B, H, L, 1)
    moved = np.minimum(weights * (1 - weights) * np.expm1(np.minimum(2 * delta, 50)), 1)
    group = case.inputs.shape[1] // case.inputs.kv_heads
    sizes = np.abs(np.where(np.isfinite(case.inputs.v), case.inputs.v, 0)).repeat(group, axis=1)
    unit = float(np.finfo(accumulator(case.dtype)).eps) / 2
    summed = (moved + case.inputs.shape[3] * unit * weights) @ sizes  # (B, H, L, d_v)
    return {
        "weights": measured["weights"].max(keepdims=True) + moved,
        "context": measured["context"].max(keepdims=True) + summed,
    }
