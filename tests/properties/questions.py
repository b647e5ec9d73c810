"""Questions that hypothesis draws: sizes, masks and everything else that changes the formula."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from attn_cli.core.inputs import AttentionInputs
from tests.agreement.samples import stored


@st.composite
def questions(
    draw: st.DrawFn, *, sinks: bool = True, additive: bool = True, mask: bool = True
) -> AttentionInputs:
    """Small attention inputs; rows may be empty, keys hidden in either way, scores large."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    batch, kv_heads, group = (draw(st.integers(1, 3)) for _ in range(3))
    queries, keys, d_k, d_v = (draw(st.integers(1, 6)) for _ in range(4))
    heads, size = kv_heads * group, draw(st.sampled_from([0.0, 0.3, 1.0, 30.0]))
    shape = (batch, heads, queries, keys)
    extras: dict[str, Any] = {
        "bias": rng.normal(size=(heads, 1, keys)),
        "scale": -0.4,
        "softcap": 3.0,
    }
    if mask:
        extras["mask"] = stored(rng.random(shape) < draw(st.sampled_from([0.3, 0.8])), shape)
    if additive:
        hidden = rng.random((queries, keys)) < 0.3
        extras["additive"] = np.where(hidden, -np.inf, rng.normal(size=hidden.shape))
    if sinks:
        extras["sinks"] = rng.normal(size=heads) * 3
    chosen = draw(st.sets(st.sampled_from(sorted(extras))))
    return AttentionInputs(
        q=rng.normal(size=(batch, heads, queries, d_k)) * size,
        k=rng.normal(size=(batch, kv_heads, keys, d_k)) * size,
        v=rng.normal(size=(batch, kv_heads, keys, d_v)),
        **{name: extras[name] for name in chosen},
    )
