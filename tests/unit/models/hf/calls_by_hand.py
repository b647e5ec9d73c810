"""Attention calls of any geometry without a model, and their weights by a plain float64 formula."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attn_cli.core.model_calls import CallFacts, CallPlace
from attn_cli.models.hf.call import AttentionCall, four_axes

Array = NDArray[Any]
SCALING = 0.4
ALIKE: dict[str, Any] = {  # what is said of all these calls
    "place": CallPlace("attention"),
    "order": 0,
    "stack": "",
    "layer": 0,
    "how": "interface",
    "backend": "eager",
    "module_class": "Attention",
    "layer_type": None,
    "d_k": 8,
    "d_v": 8,
    "mask": None,
    "window": None,
    "scaling": SCALING,
    "softmax_dtype": "float32",
}


def attention_call(
    *,
    batch: int = 2,
    heads: int = 4,
    kv_heads: int = 2,
    queries: int = 5,
    keys: int = 7,
    dtype: torch.dtype = torch.float32,
    causal: bool = False,
    cross: bool = False,
    softcap: float | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    sinks: Tensor | None = None,
) -> AttentionCall:
    """A call with drawn q, k and v, always the same ones."""
    random = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(batch, h, n, 8, generator=random).to(dtype)
        for h, n in ((heads, queries), (kv_heads, keys), (kv_heads, keys))
    )
    facts = CallFacts(
        **ALIKE,
        cross=cross,
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        queries=queries,
        keys=keys,
        q_offset=None if cross or keys < queries else keys - queries,
        causal=causal,
        softcap=softcap,
        sinks=sinks is not None,
        position_bias=bias is not None,
    )
    return AttentionCall(
        facts=facts,
        module=None,
        q=q,
        k=k,
        v=v,
        mask=None if mask is None else four_axes(mask),
        scaling=SCALING,
        sinks=None if sinks is None else four_axes(sinks),
        position_bias=None if bias is None else four_axes(bias),
    )


def at_its_softmax(call: AttentionCall) -> AttentionCall:
    """The same call as it is seen where q, k and v are unknown."""
    masked, weights = masked_and_weights(call)
    facts = replace(call.facts, how="softmax", kv_heads=None, causal=False)
    seen = (torch.from_numpy(each).float() for each in (masked, weights))
    return AttentionCall(facts=facts, module=None, masked=next(seen), weights=next(seen))


def masked_and_weights(call: AttentionCall) -> tuple[Array, Array]:
    """(B, H, L, S) each, in float64: −inf where a key is hidden, an empty row of zeros."""
    q, k = (_wide(each) for each in (call.q, call.k))
    facts = call.facts
    shape = (facts.batch, facts.heads, facts.queries, facts.keys)
    scores = q @ np.repeat(k, facts.heads // k.shape[1], 1).swapaxes(-1, -2) * call.scaling
    if facts.softcap is not None:
        scores = facts.softcap * np.tanh(scores / facts.softcap)
    if call.position_bias is not None:
        scores = scores + _wide(call.position_bias)
    if call.mask is not None and call.mask.dtype == torch.bool:
        scores = np.where(np.broadcast_to(call.mask.numpy(), shape), scores, -np.inf)
    elif call.mask is not None:
        scores = (scores + _wide(call.mask)).astype(scores.dtype)
    if facts.causal:
        scores = np.where(np.tri(*shape[2:], dtype=bool), scores, -np.inf)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    p = np.exp(np.where(np.isneginf(scores), -np.inf, scores - np.nan_to_num(top, neginf=0.0)))
    z = p.sum(-1, keepdims=True)
    if call.sinks is not None:
        z = z + np.exp(_wide(call.sinks) - np.nan_to_num(top, neginf=0.0))
    return scores, np.divide(p, z, out=np.zeros_like(p), where=z > 0)


def _wide(tensor: Tensor | None) -> Array:
    assert tensor is not None
    return np.asarray(tensor.double())
