"""Small questions for the tests of gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from attn_cli.core.draws import normal
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.layer import Origin, Projections, make_qkv
from attn_cli.core.masks import MaskContext
from attn_cli.masks.expression import parse


def qkv(
    heads: int = 2, kv_heads: int = 2, queries: int = 3, keys: int = 4, **more: Any
) -> AttentionInputs:
    """Standard normal q (1, H, L, 4), k (1, Hkv, S, 4) and v (1, Hkv, S, 3)."""
    return AttentionInputs(
        q=normal(5, 0, (1, heads, queries, 4)),
        k=normal(5, 1, (1, kv_heads, keys, 4)),
        v=normal(5, 2, (1, kv_heads, keys, 3)),
        **more,
    )


def masked(text: str, inputs: AttentionInputs) -> AttentionInputs:
    """The question with a mask expression over it."""
    return replace(inputs, mask=parse(text).build(MaskContext(*inputs.shape)))


def layer() -> AttentionInputs:
    """Three token vectors through square projections, two heads of 2."""
    weights = [normal(6, i, (4, 4)) / 2 for i in range(4)]
    origin = Origin(normal(6, 9, (1, 3, 4)), 2, 2, projections=Projections(*weights))
    q, k, v = make_qkv(origin)
    return AttentionInputs(q, k, v, x=origin.x, origin=origin)
