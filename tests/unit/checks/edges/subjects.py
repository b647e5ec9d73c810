"""Subjects for the suite: one that is right, by PyTorch row by row, and many that are wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attn_cli.checks.edges.case import Answer
from attn_cli.core.inputs import AttentionInputs
from attn_cli.errors import UnsupportedError

Array = NDArray[Any]


@dataclass(frozen=True)
class RowByRow:
    """PyTorch's fused attention on what each row sees alone: right, and without any boolean mask.

    Rows of a head that see the same keys go together.
    """

    name: str = "row by row"

    def attend(self, inputs: AttentionInputs, dtype: str) -> Answer:
        if inputs.softcap is not None:
            raise UnsupportedError("there is no softcap here")
        kind = getattr(torch, dtype)
        batch, heads, queries, _ = inputs.shape
        visible = inputs.visible()
        shown = np.ones(inputs.shape, bool) if visible is None else visible
        added = np.broadcast_to(inputs.added(), inputs.shape)
        output = torch.zeros(batch, heads, queries, inputs.v.shape[-1], dtype=kind)
        for b in range(batch):
            extra = added[b] + inputs.biased_by(b)
            for h in range(heads):
                for seen in {row.tobytes(): row for row in shown[b, h] if row.any()}.values():
                    rows = (shown[b, h] == seen).all(-1)
                    output[b, h, rows] = _fused(inputs, b, h, rows, seen, extra[h][rows], kind)
        return Answer(output.double().numpy())


def _fused(
    inputs: AttentionInputs, b: int, h: int, rows: Array, seen: Array, extra: Array, kind: Any
) -> torch.Tensor:
    """Some rows of one head over the keys that they see; `extra` (rows, S) is added to scores."""
    kv = h // (inputs.shape[1] // inputs.kv_heads)
    q, k, v = inputs.q[b, h, rows], inputs.k[b, kv, seen], inputs.v[b, kv, seen]
    extra = extra[:, seen]
    if inputs.sinks is not None:  # one more key, which scores as the sink does
        k, v = (np.concatenate([array, np.zeros_like(array[:1])]) for array in (k, v))
        extra = np.append(extra, np.full((len(q), 1), inputs.sinks[h]), axis=1)
    query, key, value = (torch.tensor(np.ascontiguousarray(a)).to(kind) for a in (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=torch.tensor(extra).to(kind) if extra.any() else None,
        scale=inputs.scale,
    )


@dataclass(frozen=True)
class Plain:
    """Attention in NumPy in float64 by the formula, all at once, with one part to be replaced.

    Right as it stands, but for hidden NaN, for which it is careful.
    """

    name: str = "plain"
    laid: Callable[[Array], Array] = lambda array: array
    repeat: Callable[[Array, int], Array] = lambda array, group: array.repeat(group, axis=1)
    scale: Callable[[AttentionInputs], float] = lambda inputs: inputs.effective_scale
    visible: Callable[[AttentionInputs], Array] = lambda inputs: _seen(inputs)
    softmax: Callable[[Array, Array], Array] | None = None
    careful: bool = True

    def attend(self, inputs: AttentionInputs, dtype: str) -> Answer:
        if inputs.softcap is not None or inputs.sinks is not None or dtype != "float64":
            raise UnsupportedError("there is no softcap, no sink and float64 alone here")
        group = inputs.shape[1] // inputs.kv_heads
        q, k, v = (self.laid(array) for array in (inputs.q, inputs.k, inputs.v))
        k, v = self.repeat(k, group), self.repeat(v, group)
        scores = q @ k.mT * self.scale(inputs)
        added = np.stack([inputs.added(b) + inputs.biased_by(b) for b in range(inputs.shape[0])])
        scores, shown = scores + added, self.visible(inputs)
        weights = (self.softmax or _softmax)(scores, shown)
        if not self.careful:
            return Answer(weights @ v, weights)
        return Answer(_weigh(weights, v, shown), weights)


def _seen(inputs: AttentionInputs) -> Array:
    visible = inputs.visible()
    return np.ones(inputs.shape, bool) if visible is None else visible


def _softmax(scores: Array, shown: Array) -> Array:
    scores = np.where(shown, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    e = np.where(shown, np.exp(scores - np.where(shown.any(-1, keepdims=True), top, 0)), 0)
    total = e.sum(-1, keepdims=True)
    return np.where(shown.any(-1, keepdims=True), e / total, 0)


def _weigh(weights: Array, v: Array, shown: Array) -> Array:
    """Each product is formed for visible keys alone."""
    parts = np.where(shown[..., None], weights[..., None] * v[:, :, None], 0)
    context: Array = parts.sum(-2)
    return context


def over_queries(scores: Array, shown: Array) -> Array:
    """The softmax over the wrong axis: over the queries of each key."""
    return _softmax(scores.mT, shown.mT).mT


def masked_late(scores: Array, shown: Array) -> Array:
    """The mask set to 0 after the softmax: rows no longer sum to 1."""
    return np.where(shown, _softmax(scores, np.ones_like(shown)), 0)


def nan_when_empty(scores: Array, shown: Array) -> Array:
    """0 ÷ 0 in rows that see nothing."""
    return np.where(shown.any(-1, keepdims=True), _softmax(scores, shown), np.nan)


def uniform_when_empty(scores: Array, shown: Array) -> Array:
    """What a fill of finfo.min leaves of rows that see nothing."""
    return np.where(shown.any(-1, keepdims=True), _softmax(scores, shown), 1 / scores.shape[-1])


def hidden_by_adding(scores: Array, shown: Array) -> Array:
    """−inf added where a key is hidden: NaN + −inf is NaN."""
    scores = scores + np.where(shown, 0, -np.inf)
    top = scores.max(-1, keepdims=True)
    e = np.exp(scores - np.where(shown.any(-1, keepdims=True), top, 0))
    return np.where(shown.any(-1, keepdims=True), e / e.sum(-1, keepdims=True), 0)


def no_maximum(scores: Array, shown: Array) -> Array:
    """exp without taking the row's maximum off first."""
    e = np.where(shown, np.exp(scores), 0)
    total = e.sum(-1, keepdims=True)
    return np.where(shown.any(-1, keepdims=True), e / total, 0)


def one_key_early(inputs: AttentionInputs) -> Array:
    """Masks evaluated one position early: causal hides the query's own key."""
    if inputs.mask is None:
        return _seen(inputs)
    batch, heads, _, keys = inputs.shape
    b, h = np.arange(batch).reshape(-1, 1, 1, 1), np.arange(heads).reshape(1, -1, 1, 1)
    late = np.arange(1, keys + 1).clip(max=keys - 1).reshape(1, 1, 1, -1)
    q_pos = np.asarray(inputs.query_positions).reshape(1, 1, -1, 1)
    return np.broadcast_to(inputs.mask(b, h, q_pos, late), inputs.shape)


def upper_left(inputs: AttentionInputs) -> Array:
    """The alignment forgotten: query 0 stands at key 0 whatever was said."""
    if inputs.mask is None or not inputs.q_offset:
        return _seen(inputs)
    batch, heads, queries, keys = inputs.shape
    axes = np.ogrid[:batch, :heads, :queries, :keys]
    return np.broadcast_to(inputs.mask(*axes), inputs.shape)


def by_view(array: Array) -> Array:
    """Heads by a bare view: the memory of (B, L, H, d) read as (B, H, L, d)."""
    return np.ascontiguousarray(array.swapaxes(1, 2)).reshape(array.shape)


def by_memory(array: Array) -> Array:
    """The memory read in C order, however the array lies in it."""
    if array.flags.f_contiguous and not array.flags.c_contiguous:
        return array.ravel(order="K").reshape(array.shape)
    return array


WRONG: dict[str, Plain] = {
    "no scale": Plain(scale=lambda inputs: 1.0 if inputs.scale is None else inputs.scale),
    "scale of d_model": Plain(
        scale=lambda inputs: (
            (inputs.q.shape[1] * inputs.q.shape[3]) ** -0.5
            if inputs.scale is None
            else inputs.scale
        )
    ),
    "softmax over queries": Plain(softmax=over_queries),
    "mask inverted": Plain(
        visible=lambda inputs: _seen(inputs) if inputs.mask is None else ~inputs.keep()
    ),
    "causal off by one": Plain(visible=one_key_early),
    "alignment forgotten": Plain(visible=upper_left),
    "mask after softmax": Plain(softmax=masked_late),
    "NaN for empty rows": Plain(softmax=nan_when_empty),
    "uniform for empty rows": Plain(softmax=uniform_when_empty),
    "no maximum taken off": Plain(softmax=no_maximum),
    "groups by tile": Plain(repeat=lambda array, group: np.tile(array, (1, group, 1, 1))),
    "heads by a bare view": Plain(laid=by_view),
    "memory read in C order": Plain(laid=by_memory),
    "NaN leaking from hidden values": Plain(careful=False),
    "NaN leaking from hidden keys": Plain(softmax=hidden_by_adding),
}
