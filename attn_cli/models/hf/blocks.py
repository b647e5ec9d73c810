"""Stages of a call for some of its query rows, so that no n×n is held: the staged formula."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import torch
from torch import Tensor

from attn_cli.core.trace import STAGES
from attn_cli.models.hf.call import AttentionCall, wide

AT_ONCE = 1 << 20  # elements of a block of scores


def rows_of(call: AttentionCall, *, at_once: int = AT_ONCE) -> Iterator[slice]:
    """Blocks of query rows whose scores are about `at_once` elements."""
    facts = call.facts
    step = max(1, at_once // max(1, facts.batch * facts.heads * facts.keys))
    for start in range(0, facts.queries, step):
        yield slice(start, min(start + step, facts.queries))


def stages_of(
    call: AttentionCall,
    rows: slice,
    *,
    heads: Sequence[int] | None = None,
    wanted: Collection[str] = STAGES,
) -> dict[str, Tensor]:
    """The wanted stages of some query rows, (B, H', l, S) and context (B, H', l, d_v).

    Computed in float32, or float64 where the model is, from q, k, v as they came. What cannot be
    told is absent: seen at a softmax there are `masked` and `weights` alone, and `context` where
    the model's own is known. Hidden keys are −inf in `masked`; an empty row has weights 0.
    """
    if call.masked is not None:
        return _seen(call, rows, heads, wanted)
    assert call.q is not None
    assert call.k is not None
    stages: dict[str, Tensor] = {}
    stages["scores"] = _scores(call, rows, heads)
    stages["scaled"] = stages["scores"] * call.scaling
    cap = call.facts.softcap
    stages["softcapped"] = (
        stages["scaled"] if cap is None else torch.tanh(stages["scaled"] / cap) * cap
    )
    bias = pick(call.bias(rows), heads)
    stages["biased"] = stages["softcapped"] if bias is None else stages["softcapped"] + bias
    added, hidden = pick(call.added(rows), heads), pick(call.hidden(rows), heads)
    masked = stages["biased"] if added is None else stages["biased"] + added
    stages["masked"] = masked if hidden is None else masked.masked_fill(hidden, -torch.inf)
    if "weights" in wanted or "context" in wanted:
        stages["weights"] = softmax(stages["masked"], hidden, pick(call.sink(rows), heads))
    if "context" in wanted:
        stages["context"] = _weigh(call, stages["weights"], heads)
    return {name: stage for name, stage in stages.items() if name in wanted}


def softmax(masked: Tensor, hidden: Tensor | None, sink: Tensor | None) -> Tensor:
    """Over the last axis, a sink in the denominator; rows that are hidden whole are 0."""
    logits = masked
    if hidden is not None:
        empty = hidden.all(-1, keepdim=True)
        logits = logits.masked_fill(empty, 0.0)
    if sink is not None:
        logits = torch.cat([logits, sink.expand(*logits.shape[:-1], 1).to(logits.dtype)], -1)
    weights = torch.softmax(logits, -1)
    weights = weights if sink is None else weights[..., :-1]
    return weights if hidden is None else weights.masked_fill(hidden, 0.0)


def pick(tensor: Tensor | None, heads: Sequence[int] | None) -> Tensor | None:
    """Some heads of (B, H or 1, …)."""
    if tensor is None or heads is None or tensor.shape[1] == 1:
        return tensor
    return tensor[:, list(heads)]


def kv_heads_of(call: AttentionCall, heads: Sequence[int] | None) -> list[int]:
    """The key/value head of every wanted query head."""
    return [h // call.group for h in (range(call.facts.heads) if heads is None else heads)]


def _scores(call: AttentionCall, rows: slice, heads: Sequence[int] | None) -> Tensor:
    assert call.q is not None
    assert call.k is not None
    q = wide(call.q[:, :, rows])
    picked = q if heads is None else q[:, list(heads)]
    return picked @ wide(_by_head(call, call.k, heads)).mT


def _weigh(call: AttentionCall, weights: Tensor, heads: Sequence[int] | None) -> Tensor:
    assert call.v is not None
    return weights @ wide(_by_head(call, call.v, heads))


def _by_head(call: AttentionCall, tensor: Tensor, heads: Sequence[int] | None) -> Tensor:
    """The keys or values (B, H', S, d) that the wanted query heads read."""
    if heads is None and tensor.shape[1] == call.facts.heads:
        return tensor
    return tensor[:, kv_heads_of(call, heads)]


def _seen(
    call: AttentionCall, rows: slice, heads: Sequence[int] | None, wanted: Collection[str]
) -> dict[str, Tensor]:
    """What a call that was seen at its softmax has."""
    there = {"masked": call.masked, "weights": call.weights, "context": call.context}
    return {
        name: wide(tensor[:, :, rows] if heads is None else tensor[:, list(heads)][:, :, rows])
        for name, tensor in there.items()
        if tensor is not None and name in wanted
    }
