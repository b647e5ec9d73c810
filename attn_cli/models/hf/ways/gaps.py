"""Gaps: how far a run is from a text run alone, stage by stage, largest of every head and row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attn_cli.models.hf.blocks import rows_of, stages_of
from attn_cli.models.hf.call import FILL, AttentionCall, wide
from attn_cli.models.hf.ways.spans import Keys, Spans, keys_of
from attn_cli.torch_arrays import to_numpy

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Gap:
    """One stage: `far` (heads, rows), the first of which is row `first` of the text.

    `size` (heads,) is the largest number of the text run alone; `outside` (heads, rows) the weight
    that goes to what is no token of the text, of weights alone.
    """

    stage: str
    first: int
    far: Array
    size: Array
    outside: Array | None = None


def tensor_gap(stage: str, alone: Tensor, seen: Tensor, first: int) -> Gap:
    """Of (r, heads, rows, d) each, on the device of the text run alone."""
    a, b = wide(alone), wide(seen.to(alone.device))
    same = (a == b) | (a.isnan() & b.isnan())
    finite = a.isfinite() & b.isfinite()
    far = torch.where(same, 0.0, torch.where(finite, (a - b).abs(), torch.inf))
    size = torch.where(a.isfinite(), a, 0.0).abs()
    return Gap(stage, first, _largest(far, (0, 3)), _largest(size, (0, 2, 3)))


def comparable(alone: AttentionCall, seen: AttentionCall, spans: Spans) -> bool:
    """Whether both are the same call of the same geometry."""
    mine, other = alone.facts, seen.facts
    alike = (mine.heads, mine.kv_heads, mine.d_k) == (other.heads, other.kv_heads, other.d_k)
    whole = spans.of(mine.place.path).count is None
    axes = (mine.queries, mine.keys) == (other.queries, other.keys) if whole else _plain(alone)
    return alike and axes and other.batch == mine.batch * spans.batch


def _plain(alone: AttentionCall) -> bool:
    """Whether keys are the tokens themselves, none added and none pooled."""
    facts = alone.facts
    return facts.batch == 1 and (facts.cross or facts.queries == facts.keys)


def call_gaps(alone: AttentionCall, seen: AttentionCall, spans: Spans) -> Iterator[Gap]:
    """From q to context, of the text's tokens that this call of the run has."""
    facts = seen.facts
    span, keys = spans.of(facts.place.path), keys_of(spans, facts)
    rows, text = span.seen(facts.queries), span.text(facts.queries)
    each = alone.facts.batch
    part = slice(span.item * each, (span.item + 1) * each)
    if alone.q is not None and seen.q is not None:
        yield tensor_gap("q", alone.q[:, :, text], seen.q[part, :, rows], text.start)
        for name in ("k", "v"):
            a, b = getattr(alone, name), getattr(seen, name)
            yield tensor_gap(name, a[:, :, keys.text], b[part, :, keys.seen], keys.text.start)
    for block in rows_of(alone):
        start, stop = max(block.start, text.start), min(block.stop, text.stop)
        if start < stop:
            shift = rows.start - text.start
            there = slice(start + shift, stop + shift)
            yield from _block(alone, seen, (slice(start, stop), there), part, keys)
    if alone.context is not None and seen.context is not None:
        a, b = alone.context[:, :, text], seen.context[part, :, rows]
        yield tensor_gap("context", a, b, text.start)


def _block(
    alone: AttentionCall,
    seen: AttentionCall,
    rows: tuple[slice, slice],
    part: slice,
    keys: Keys,
) -> Iterator[Gap]:
    """Scores and weights of some rows."""
    name = "scores" if alone.q is not None else "masked"
    a = stages_of(alone, rows[0], wanted=(name, "weights"))
    there = stages_of(seen, rows[1], wanted=(name, "weights"))
    b = {stage: tensor[part].to(alone.device) for stage, tensor in there.items()}
    scores = a[name][..., keys.text], b[name][..., keys.seen]
    if name == "masked":
        scores = _above(*scores)
    yield tensor_gap("scores", *scores, rows[0].start)
    weights, inside = b["weights"], torch.zeros_like(a["weights"])
    inside[..., keys.text] = weights[..., keys.seen]
    outside = weights.clone()
    outside[..., keys.seen] = 0
    lost = outside.sum(-1, keepdim=True)
    right = torch.cat([a["weights"], torch.zeros_like(lost)], -1)
    gap = tensor_gap("weights", right, torch.cat([inside, lost], -1), rows[0].start)
    yield Gap("weights", gap.first, gap.far, gap.size, _largest(lost, (0, 3)))


def _above(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Masked scores less the largest of their row: a constant of a row changes no weight."""
    hidden = (a <= FILL) | (b <= FILL)
    a, b = (x.masked_fill(hidden, -torch.inf) for x in (a, b))
    tops = [x.amax(-1, keepdim=True).nan_to_num(neginf=0.0) for x in (a, b)]
    return (a - tops[0]).masked_fill(hidden, 0.0), (b - tops[1]).masked_fill(hidden, 0.0)


def _largest(tensor: Tensor, axes: tuple[int, ...]) -> Array:
    if not tensor.numel():
        kept = [n for axis, n in enumerate(tensor.shape) if axis not in axes]
        return np.zeros(kept)
    return to_numpy(tensor.amax(axes)).astype(np.float64)
