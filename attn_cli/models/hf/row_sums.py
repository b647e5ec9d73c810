"""row_sums: what one pass over the keys leaves of every row of a call, block by block of queries.

The dense way, on the model's device: a block of scores at a time, so that no n×n is held. What the
rest needs is one function, `row_sums`; a tiled kernel can stand in its place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attn_cli.core.statistics import Array, RowSums, Statistic, Term
from attn_cli.models.hf.blocks import rows_of
from attn_cli.models.hf.call import FILL, AttentionCall, wide
from attn_cli.torch_arrays import to_numpy

LOG2E = math.log2(math.e)  # 2^x costs about half of what eˣ does
LOW = -1e30  # stands for −inf where 0·(−inf) would be NaN; exp of it is 0 all the same
PIECE = 3 << 18  # elements of a block: rows enough for the product, few enough for the cache


def row_sums(call: AttentionCall, stats: Sequence[Statistic]) -> RowSums:
    """The sums of every row that these statistics need; arrays (B, H, L).

    Rows and conventions are those of `core.statistics.RowSums`; sums run in float32, or float64
    where the model does.
    """
    terms = {name: g for statistic in stats for name, g in statistic.terms.items()}
    gathered = _Gathered()
    for rows in rows_of(call, at_once=PIECE):
        last = call.last_key(rows)
        masked, hidden, visible = _masked(call, rows, last)
        gathered.take(_block(call, rows, masked, hidden, terms), visible)
    return gathered.close(aligned=call.facts.q_offset is not None)


@dataclass(slots=True)
class _Gathered:
    """Blocks of rows, to be put together in the end."""

    parts: list[dict[str, Tensor]] = field(default_factory=list)
    visible: list[Tensor] = field(default_factory=list)

    def take(self, part: dict[str, Tensor], visible: Tensor) -> None:
        self.parts.append(part)
        self.visible.append(visible.expand(part["maximum"].shape))

    def close(self, *, aligned: bool) -> RowSums:
        whole = {name: _joined([p[name] for p in self.parts]) for name in self.parts[0]}
        named = {n: whole.pop(n) for n in [*whole] if n.startswith("expected.")}
        return RowSums(
            **whole,
            expected={name.removeprefix("expected."): value for name, value in named.items()},
            visible=_joined(self.visible),
            aligned=aligned,
        )


def _joined(parts: Sequence[Tensor]) -> Array:
    return to_numpy(torch.cat(list(parts), 2))


def _masked(call: AttentionCall, rows: slice, last: int) -> tuple[Tensor, Tensor | None, Tensor]:
    """Masked scores (B, H, l, S') of one block, what is hidden, and the number of visible keys.

    A block of its own memory, which the caller may overwrite.
    """
    if call.masked is not None:
        masked = wide(call.masked[:, :, rows, :last]).clone()
        below = torch.isneginf(masked)
        return masked, below if bool(below.any()) else None, (masked > FILL).sum(-1)
    scores = _scores(call, rows, last)
    if (cap := call.facts.softcap) is not None:
        scores.div_(cap).tanh_().mul_(cap)
    if (bias := call.bias(rows, last)) is not None:
        scores = scores.add_(bias)
    if call.facts.causal:
        return _causal(scores, rows)
    hidden, added = call.hidden(rows, last), call.added(rows, last)
    number = torch.full((1, 1, 1), last, device=scores.device)
    if added is not None:
        scores.add_(added)
        number = (added > FILL).sum(-1)
    elif hidden is not None:
        number = last - hidden.sum(-1)
    return scores, hidden, number


def _causal(scores: Tensor, rows: slice) -> tuple[Tensor, None, Tensor]:
    """What `causal` hides lies in the last square of a block alone; no row is empty."""
    length = rows.stop - rows.start
    later = torch.ones(length, length, dtype=torch.bool, device=scores.device).triu(1)
    square = later[:, : scores.shape[-1] - rows.start]  # there may be fewer keys than queries
    scores[..., rows.start :].masked_fill_(square, LOW)
    seen = torch.arange(rows.start + 1, rows.stop + 1, device=scores.device)
    return scores, None, seen.clamp(max=scores.shape[-1])


def _scores(call: AttentionCall, rows: slice, last: int) -> Tensor:
    """scale · q · kᵀ of one block, without repeating heads: a group of queries meets its key."""
    assert call.q is not None
    assert call.k is not None
    batch, kv_heads = call.k.shape[:2]
    q, k = wide(call.q[:, :, rows]), wide(call.k[:, :, :last])
    length, width = q.shape[2:]
    grouped = q.reshape(batch * kv_heads, -1, width)  # (B·Hkv, G·l, d_k)
    keys = k.reshape(batch * kv_heads, last, -1).mT
    nothing = grouped.new_empty(())
    scores = torch.baddbmm(nothing, grouped, keys, beta=0, alpha=call.scaling)
    return scores.view(batch, -1, length, last)


def _block(
    call: AttentionCall,
    rows: slice,
    masked: Tensor,
    hidden: Tensor | None,
    terms: Mapping[str, Term],
) -> dict[str, Tensor]:
    """The sums of one block of rows; `masked` is overwritten."""
    empty = torch.zeros(masked.shape[:3], dtype=torch.bool, device=masked.device)
    if hidden is not None:
        masked.masked_fill_(hidden, LOW)
        empty = hidden.all(-1).expand(masked.shape[:3])
    maximum = masked.amax(-1, keepdim=True)
    shift = masked.sub_(maximum)
    p = torch.mul(shift, LOG2E).exp2_()
    sums = _expected(call, rows, p, terms)
    shifted = shift.mul_(p).sum(-1)
    total = sums.pop("total")
    maximum = maximum[..., 0]
    kept, log_z, lse = _closed(maximum, total, call.sink(rows))
    nothing = {"maximum": -torch.inf, "lse": -torch.inf, "log_z": torch.nan}
    made = {"maximum": maximum, "lse": lse, "log_z": log_z}
    made |= {"weight_sum": total * kept, "shifted": shifted * kept}
    made |= {f"expected.{name}": value * kept for name, value in sums.items()}
    filled = {
        name: value.masked_fill(empty, nothing.get(name, 0.0)) for name, value in made.items()
    }
    return filled | {"empty": empty}


def _closed(maximum: Tensor, total: Tensor, sink: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """What makes weights of p, ln Z relative to the keys' maximum, and lse."""
    log_z = total.log()
    if sink is not None:
        log_z = torch.logaddexp(log_z, sink[..., 0] - maximum)
    return torch.exp(-log_z), log_z, maximum + log_z


def _expected(
    call: AttentionCall, rows: slice, p: Tensor, terms: Mapping[str, Term]
) -> dict[str, Tensor]:
    """Σ p and Σ p·g of every term, (B, H, l): one product for them all, which reads p once."""
    start = call.facts.q_offset or 0
    q_pos = torch.arange(start + rows.start, start + rows.stop, device=p.device, dtype=p.dtype)
    k_pos = torch.arange(p.shape[-1], device=p.device, dtype=p.dtype)
    batch, heads, length, keys = p.shape
    columns = torch.ones(length, keys, 1 + len(terms), dtype=p.dtype, device=p.device)
    for number, g in enumerate(terms.values(), 1):
        columns[..., number] = g(q_pos[:, None], k_pos)
    by_row = p.view(batch * heads, length, keys).transpose(0, 1)  # (l, B·H, S)
    sums = torch.bmm(by_row, columns).transpose(0, 1).view(batch, heads, length, -1)
    return {name: sums[..., number] for number, name in enumerate(("total", *terms))}
