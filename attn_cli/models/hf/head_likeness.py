"""HeadLikeness: an observer of how alike the heads of a layer look, row by row.

The cosine of two heads' weight rows is held against what chance makes of it: were each row's
weights dealt out at random over the keys it sees, two rows a and b with sums A and B over n visible
keys would have a·b = A·B/n on average. Sharp rows then have a cosine near 0 and flat ones near 1.
"""

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

Real = Callable[[CallFacts], BoolArray]  # the queries (B, L) that are no padding


@dataclass(frozen=True, slots=True, eq=False)
class LikenessSums:
    """Sums over the rows in which both heads of a pair see several keys, (B, H, H) each."""

    cosine: NDArray[Any]
    chance: NDArray[Any]
    rows: NDArray[Any]


@dataclass(slots=True)
class HeadLikeness:
    """Of every call, with rows of padding and rows that see one key left out."""

    real: Real
    sums: dict[CallPlace, LikenessSums] = field(default_factory=dict)

    def see(self, call: AttentionCall) -> None:
        """Adds up one call, block by block."""
        facts = call.facts
        real = torch.as_tensor(self.real(facts), device=call.device)
        shape = (facts.batch, facts.heads, facts.heads)
        totals = torch.zeros(3, *shape, dtype=torch.float64)
        for rows in rows_of(call):
            weights = stages_of(call, rows, wanted=("weights",))["weights"]
            totals += _pairs(weights, visible_keys(call, rows), real[:, rows]).cpu()
        self.sums[facts.place] = LikenessSums(*(to_numpy(total) for total in totals))


def _pairs(weights: Tensor, visible: Tensor, real: Tensor) -> Tensor:
    """(3, B, H, H): the sums of the cosines, of those by chance, and the number of rows."""
    by_row = weights.transpose(1, 2)  # (B, l, H, S)
    norm = by_row.norm(dim=-1, keepdim=True)
    unit = by_row / norm.clamp(min=torch.finfo(norm.dtype).tiny)
    seen = visible.transpose(1, 2)  # (b, l, h, S)
    count = seen.sum(-1, keepdim=True)
    flat = seen.to(unit.dtype) / count.clamp(min=1)
    size = unit.sum(-1, keepdim=True)  # A ÷ |a|
    cosine = unit @ unit.mT
    chance = (size @ size.mT) * (flat @ flat.mT)  # (B, l, H, H)
    counts = real[:, :, None, None] & (norm != 0) & (count > 1)
    both = counts & counts.mT
    kept = (torch.where(both, part, 0) for part in (cosine, chance))
    return torch.stack([*(part.sum(1) for part in kept), both.sum(1)])
