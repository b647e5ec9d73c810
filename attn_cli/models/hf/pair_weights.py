"""PairWeights: an observer of the weight that marked queries give to marked keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from attn_cli.core.masks import BoolArray
from attn_cli.core.model_calls import CallFacts, CallPlace
from attn_cli.models.hf.blocks import rows_of, stages_of
from attn_cli.models.hf.call import AttentionCall
from attn_cli.models.hf.visible import visible_keys
from attn_cli.torch_arrays import to_numpy

Marks = tuple[BoolArray, BoolArray]  # queries (B, L) and keys (B, S)


@dataclass(frozen=True, slots=True, eq=False)
class PairSums:
    """Sums over a call's marked queries, (B, H) each; `queries` (B,) counts them.

    `weight` is what a query gives to all marked keys, `largest` what it gives to one of them, and
    `chance` what it would give to all if it looked at its visible keys alike.
    """

    weight: NDArray[Any]
    largest: NDArray[Any]
    chance: NDArray[Any]
    queries: NDArray[Any]


@dataclass(slots=True)
class PairWeights:
    """`marks` says which queries and keys of a call count; None: the call is left out.

    Queries of an item without a marked key do not count.
    """

    marks: Callable[[CallFacts], Marks | None]
    sums: dict[CallPlace, PairSums] = field(default_factory=dict)

    def see(self, call: AttentionCall) -> None:
        """Adds up one call, block by block; blocks without a marked query are not computed."""
        marks = self.marks(call.facts)
        if marks is None:
            return
        facts, counted = call.facts, marks[0] & marks[1].any(1, keepdims=True)
        if not counted.any():
            return
        queries, keys = (torch.as_tensor(each, device=call.device) for each in (counted, marks[1]))
        zeros = torch.zeros(facts.batch, facts.heads, dtype=torch.float64)
        totals = {name: zeros.clone() for name in ("weight", "largest", "chance")}
        for rows in rows_of(call):
            if counted[:, rows].any():
                _add(totals, call, rows, queries[:, rows], keys)
        self.sums[facts.place] = PairSums(
            **{name: to_numpy(total) for name, total in totals.items()},
            queries=counted.sum(1),
        )


def _add(
    totals: dict[str, Tensor], call: AttentionCall, rows: slice, queries: Tensor, keys: Tensor
) -> None:
    on = keys[:, None, None]  # (B, 1, 1, S)
    weights = stages_of(call, rows, wanted=("weights",))["weights"].masked_fill(~on, 0)
    visible = visible_keys(call, rows)
    share = (visible & on).sum(-1) / visible.sum(-1).clamp(min=1)  # (B, h, l)
    parts = {"weight": weights.sum(-1), "largest": weights.amax(-1), "chance": share}
    for name, part in parts.items():
        counted = part.masked_fill(~queries[:, None], 0)
        totals[name] += counted.sum(-1).cpu()
