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
    trace = ENGINES["numpy"].run(inputs, Ask(keep=frozenset({"weights", "context"})))
    oracle = {name: trace[name] for name in ("weights", "context")}
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
    """The budget measured on the case (`core/budget.py`): the largest of all items and heads.

    Of a few numbers some come out exact by luck, in every plain run of one head.
    """
    right = {name: oracle[name] for name in ("weights", "context")}
    measured = measure_budget(case.inputs, right, dtype=case.dtype)
    return {name: budget.max(keepdims=True) for name, budget in measured.items()}
