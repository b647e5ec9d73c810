"""Questions with one fault planted where it is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.layer import Origin, Projections, make_qkv

Array = NDArray[Any]

torch.set_num_threads(1)  # handing out small tensors costs more than computing them


def qkv(
    seed: int = 0,
    *,
    heads: int = 2,
    kv_heads: int = 2,
    queries: int = 5,
    keys: int = 6,
    d: int = 8,
    dtype: str = "float16",
    **extra: Any,
) -> AttentionInputs:
    """Standard normal q, k and v that `dtype` holds exactly."""
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((1, heads, queries, d)).astype(dtype)
    k, v = (rng.standard_normal((1, kv_heads, keys, d)).astype(dtype) for _ in range(2))
    return AttentionInputs(q=q, k=k, v=v, **extra)


def layer(x: Array, matrices: Mapping[str, Array], *, heads: int = 2) -> AttentionInputs:
    """Token vectors through projections; those that are not given are the identity, a tenth."""
    width = x.shape[-1]
    small = {f"w_{name}": np.eye(width, dtype=x.dtype) / 10 for name in "qkvo"}
    weights = Projections(**{**small, **matrices})
    origin = Origin(x=x, heads=heads, kv_heads=heads, projections=weights)
    q, k, v = make_qkv(origin)
    return AttentionInputs(q=q, k=k, v=v, x=x, origin=origin)
