"""LayerKl: an observer of how far a layer looks elsewhere than the layer before it.

KL(p ‖ q) = Σ p·ln(p ÷ q) in nats, where p is a token's row of weights in this layer, averaged over
the heads and divided by its sum, and q the same token's row in the attention layer before. Where p
is 0 there is no term; a q of 0 counts as the smallest normal float32. By chance, q's numbers dealt
out at random over the visible keys, it would be Σ p·ln p − mean(ln q).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from attn_cli.core.model_calls import CallFacts, CallPlace
from attn_cli.models.hf.blocks import rows_of, stages_of
from attn_cli.models.hf.call import AttentionCall
from attn_cli.models.hf.head_likeness import Real
from attn_cli.models.hf.visible import visible_keys
from attn_cli.torch_arrays import to_numpy

LEAST = torch.finfo(torch.float32).tiny
Tower = tuple[str, bool, int]


@dataclass(frozen=True, slots=True, eq=False)
class KlSums:
    """Sums over the rows that see several keys, (B,) each, and the layer that was held against."""

    before: CallPlace
    kl: NDArray[Any]
    chance: NDArray[Any]
    rows: NDArray[Any]


@dataclass(slots=True)
class LayerKl:
    """Of every call behind another of its tower, where both have the same mask over the same keys.

    The call before is held, less its values: no matrix of a whole layer is.
    """

    real: Real
    sums: dict[CallPlace, KlSums] = field(default_factory=dict)
    _before: dict[Tower, AttentionCall] = field(default_factory=dict)

    def see(self, call: AttentionCall) -> None:
        """Compares one call with the one before, and holds it for the next."""
        facts = call.facts
        tower = (facts.stack, facts.cross, facts.place.piece)
        before = self._before.get(tower)
        if before is not None and _alike(before.facts, facts):
            self._compare(before, call)
        self._before[tower] = _held(call)

    def _compare(self, before: AttentionCall, call: AttentionCall) -> None:
        real = torch.as_tensor(self.real(call.facts), device=call.device)
        totals = torch.zeros(3, call.facts.batch, dtype=torch.float64)
        for rows in rows_of(call):
            visible, earlier = visible_keys(call, rows), visible_keys(before, rows)
            if not _same(visible, earlier.to(visible.device)):
                return
            p, q = _row(call, rows), _row(before, rows).to(call.device)
            totals += _kl(p, q, visible.any(1), real[:, rows]).cpu()
        self.sums[call.facts.place] = KlSums(before.facts.place, *map(to_numpy, totals))


def _alike(a: CallFacts, b: CallFacts) -> bool:
    return (a.batch, a.queries, a.keys) == (b.batch, b.queries, b.keys)


def _same(a: Tensor, b: Tensor) -> bool:
    """Whether two masks hide the same, whatever their axes of 1."""
    return bool((a == b).all())


def _held(call: AttentionCall) -> AttentionCall:
    """A copy of what the weights are made of; a model may write into its tensors afterwards.

    Its mask, bias and sinks, which layers share, stay the model's.
    """
    made_of = ("q", "k", "masked", "weights")
    own = {name: t.clone() for name in made_of if (t := getattr(call, name)) is not None}
    return replace(call, v=None, context=None, module=None, **own)


def _row(call: AttentionCall, rows: slice) -> Tensor:
    """(B, l, S): weights averaged over the heads, each row divided by its sum."""
    mean = stages_of(call, rows, wanted=("weights",))["weights"].mean(1)
    return mean / mean.sum(-1, keepdim=True)  # an empty row is NaN, and does not count


def _kl(p: Tensor, q: Tensor, visible: Tensor, real: Tensor) -> Tensor:
    """(3, B): the sums of KL, of KL by chance, and the number of rows."""
    count = visible.sum(-1)
    log_q = q.clamp(min=LEAST).log()
    within = torch.xlogy(p, p).sum(-1)  # −H(p)
    kl = within - (p * log_q).sum(-1)
    chance = within - log_q.masked_fill(~visible, 0).sum(-1) / count.clamp(min=1)
    counts = real & (count > 1)
    kept = (torch.where(counts, part, 0) for part in (kl, chance))
    return torch.stack([*(part.sum(1) for part in kept), counts.sum(1)])
