"""masked_block(): the masked scores of some query rows, with nothing held of the others."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attn_cli.models.hf.call import FILL, AttentionCall, wide
from attn_cli.models.hf.scratch import Scratch

LOG2E = math.log2(math.e)
LOW = -1e30  # stands for −inf where 0·(−inf) would be NaN; exp of it is 0 all the same


@dataclass(frozen=True, slots=True, eq=False)
class MaskedBlock:
    """`scores` (B, H, l, S') lie in the scratch, in units of 1/`unit`.

    `unit` is log₂ e where nothing is added to them: 2^x costs about half of what eˣ does. A hidden
    key has LOW there, and −inf elsewhere, for a fill may be lower than LOW; `infinite` says whether
    there may be −inf. `visible` counts keys and `empty` says whether there is none that takes part,
    None where every row has one; both broadcast to (B, H, l).
    """

    scores: Tensor
    visible: Tensor
    empty: Tensor | None
    unit: float = 1.0
    infinite: bool = False


def masked_block(call: AttentionCall, rows: slice, scratch: Scratch) -> MaskedBlock:
    """What goes into the softmax of these rows, keys cut off that none of them can see."""
    last = call.last_key(rows)
    if call.masked is not None:
        given = wide(call.masked[:, :, rows, :last])
        scores = scratch.room("scores", given, tuple(given.shape)).copy_(given)
        return _without(scores, torch.isneginf(given), (given > FILL).sum(-1))
    cap, bias, added = call.facts.softcap, call.bias(rows, last), call.added(rows, last)
    unit = LOG2E if cap is None and bias is None and added is None else 1.0
    scores = _scores(call, rows, last, call.scaling * unit, scratch)
    if cap is not None:
        scores.div_(cap).tanh_().mul_(cap)
    if bias is not None:
        scores.add_(bias)
    if call.facts.causal:
        return _causal(scores, rows, unit, scratch)
    hidden = call.hidden(rows, last)
    if added is not None:
        visible = (added > call.below).sum(-1)
        return _without(scores.add_(added), hidden, visible, infinite=bias is not None)
    number = torch.full((1, 1, 1), last, device=scores.device)
    visible = number if hidden is None else last - hidden.sum(-1)
    return _without(scores, hidden, visible, unit, infinite=bias is not None)


def _without(
    scores: Tensor,
    hidden: Tensor | None,
    visible: Tensor,
    unit: float = 1.0,
    *,
    infinite: bool = False,
) -> MaskedBlock:
    """`scores` without the hidden keys."""
    if hidden is None or not bool(hidden.any()):
        return MaskedBlock(scores, visible, None, unit, infinite)
    scores.masked_fill_(hidden, _low(unit))
    return MaskedBlock(scores, visible, hidden.all(-1), unit, infinite=unit == 1)


def _low(unit: float) -> float:
    return -torch.inf if unit == 1 else LOW


def _causal(scores: Tensor, rows: slice, unit: float, scratch: Scratch) -> MaskedBlock:
    """What `causal` hides lies in the last square of a block alone; no row is empty."""
    size = max(0, scores.shape[-1] - rows.start)  # later rows see all keys, if keys are fewer
    square = scratch.later(size, scores.device)
    scores[..., :size, rows.start :].masked_fill_(square, _low(unit))
    seen = torch.arange(rows.start + 1, rows.stop + 1, device=scores.device)
    visible = seen.clamp(max=scores.shape[-1])
    return MaskedBlock(scores, visible, None, unit, infinite=unit == 1)


def _scores(call: AttentionCall, rows: slice, last: int, factor: float, scratch: Scratch) -> Tensor:
    """factor · q · kᵀ of one block, without repeating heads: a group of queries meets its key."""
    assert call.q is not None
    assert call.k is not None
    batch, kv_heads = call.k.shape[:2]
    q, k = wide(call.q[:, :, rows]), wide(call.k[:, :, :last])
    length, width = q.shape[2:]
    grouped = q.reshape(batch * kv_heads, -1, width)  # (B·Hkv, G·l, d_k)
    keys = k.reshape(batch * kv_heads, last, -1).mT
    scores = scratch.room("scores", q, (*grouped.shape[:2], last))
    torch.baddbmm(scores, grouped, keys, beta=0, alpha=factor, out=scores)
    return scores.view(batch, -1, length, last)
