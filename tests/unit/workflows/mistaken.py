"""Dumps of attention with one mistake, in plain NumPy that knows nothing of attn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
B, H, HKV, L, S, D, DV = 2, 4, 2, 6, 6, 8, 5
MASK = np.ones((B, 1, 1, S), dtype=bool)
MASK[0, ..., 4:] = MASK[1, ..., 5:] = False
CAUSAL = np.tri(L, S, dtype=bool)[None, None]


def softmax(scores: Array, axis: Any = -1) -> Array:
    with np.errstate(invalid="ignore"):
        e = np.exp(scores - scores.max(axis, keepdims=True))
        weights: Array = e / e.sum(axis, keepdims=True)
    return weights


def attention(
    *,
    kv_heads: int = H,
    seen: Array | None = None,
    seed: int = 0,
    dtype: str = "float32",
    scale: float = D**-0.5,
    grouping: Callable[[Array], Array] = lambda a: a.repeat(H // a.shape[1], 1),
    masking: Callable[[Array, Array], Array] = lambda s, seen: np.where(seen, s, -np.inf),
    normalising: Callable[[Array], Array] = softmax,
    afterwards: Callable[[Array], Array] = lambda w: w,
    mixing: Callable[[Array, Array], Array] = lambda w, v: w @ v,
) -> dict[str, Array]:
    """q, k, v, scores, masked (where something is), weights and context."""
    rng = np.random.default_rng(seed)
    q = rng.normal(size=(B, H, L, D)) * 1.4
    k = rng.normal(size=(B, kv_heads, S, D)) * 1.4
    v = rng.normal(size=(B, kv_heads, S, DV))
    q, k, v = (a.astype(dtype) for a in (q, k, v))
    keys, values = grouping(k), grouping(v)
    scores = q @ keys.swapaxes(-1, -2)
    scaled = scores * np.dtype(dtype).type(scale)
    masked = scaled if seen is None else masking(scaled, np.broadcast_to(seen, scaled.shape))
    weights = afterwards(normalising(masked))
    context = mixing(weights, values)
    stages = {"q": q, "k": k, "v": v, "scores": scores, "weights": weights, "context": context}
    if seen is not None:
        stages["masked"] = masked
    return {name: array.astype(dtype) for name, array in stages.items()}
