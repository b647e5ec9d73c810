"""Sample inputs: small seeded questions of every kind, and expressions for every mask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.masks import Mask, MaskContext
from attn_cli.masks.expression import parse
from attn_cli.masks.file import Stored

Array = NDArray[Any]
INF = float("inf")


def drawn(
    seed: int,
    *,
    batch: int = 1,
    heads: int = 2,
    kv_heads: int | None = None,
    queries: int = 5,
    keys: int = 5,
    d_k: int = 8,
    d_v: int = 8,
    size: float = 1.0,
    **more: Any,
) -> AttentionInputs:
    """Unit normal q, k, v, with q and k times `size`; `more` goes to AttentionInputs as it is."""
    rng = np.random.default_rng(seed)
    kv_heads = kv_heads or heads
    return AttentionInputs(
        q=rng.normal(size=(batch, heads, queries, d_k)) * size,
        k=rng.normal(size=(batch, kv_heads, keys, d_k)) * size,
        v=rng.normal(size=(batch, kv_heads, keys, d_v)),
        **more,
    )


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def stored(keep: Array, shape: tuple[int, int, int, int], *, q_offset: int = 0) -> Mask:
    """A mask from a boolean array that broadcasts to (B, H, L, S)."""
    return Stored(np.broadcast_to(keep.astype(bool), shape), q_offset)


def built(
    text: str, inputs: AttentionInputs, *, load: Callable[[str], Array] | None = None
) -> Mask:
    """The mask that `text` writes, for the sizes and the alignment of `inputs`."""
    batch, heads, queries, keys = inputs.shape
    offset = inputs.q_offset or 0
    return parse(text).build(MaskContext(batch, heads, queries, keys, offset, load=load))


def _strided() -> AttentionInputs:
    """Views that are neither contiguous nor in order: every second head, features backwards."""
    wide = drawn(11, batch=2, heads=4, d_k=16, d_v=6)
    return AttentionInputs(q=wide.q[:, ::2, :, ::-2], k=wide.k[:, ::2, :, ::2], v=wide.v[:, ::2])


def _fortran() -> AttentionInputs:
    plain = drawn(12, batch=2, d_v=3)
    q, k, v = (np.asfortranarray(array) for array in (plain.q, plain.k, plain.v))
    return AttentionInputs(q=q, k=k, v=v)


def _hiding(seed: int, fill: float, share: float, *shape: int) -> Array:
    """An additive mask: `fill` in `share` of its entries, small numbers in the others."""
    rng = np.random.default_rng(seed)
    additive = rng.normal(size=shape) * 0.1
    additive[rng.random(shape) < share] = fill
    additive[..., 0, :] = fill  # row 0 has nothing else
    return additive


def _everything() -> AttentionInputs:
    """Grouped heads, cap, bias, two kinds of mask and sinks at once."""
    keep = np.random.default_rng(13).random((2, 1, 6, 9)) < 0.7
    keep[0, :, 2] = False
    return drawn(
        14,
        batch=2,
        heads=4,
        kv_heads=2,
        queries=6,
        keys=9,
        d_v=5,
        mask=stored(keep, (2, 4, 6, 9), q_offset=3),
        additive=_hiding(15, -INF, 0.2, 1, 1, 6, 9),
        bias=normal(16, 1, 4, 1, 9),
        scale=0.7,
        softcap=4.0,
        sinks=normal(17, 4),
        q_offset=3,
    )


SAMPLES: dict[str, Callable[[], AttentionInputs]] = {
    "heads": lambda: drawn(1, batch=3),
    "grouped": lambda: drawn(2, batch=2, heads=4, kv_heads=2),
    "one_kv_head": lambda: drawn(3, heads=4, kv_heads=1),
    "more_keys": lambda: drawn(4, batch=3, queries=3, keys=7, q_offset=4),
    "more_queries": lambda: drawn(5, queries=7, keys=3, q_offset=None),
    "wide_values": lambda: drawn(6, d_k=4, d_v=9),
    "narrow_values": lambda: drawn(7, d_k=6, d_v=1),
    "one_token": lambda: drawn(8, batch=3, queries=1, keys=1),
    "one_key": lambda: drawn(9, queries=4, keys=1),
    "many_keys": lambda: drawn(10, heads=1, queries=9, keys=300, d_k=64, q_offset=0),
    "strided": _strided,
    "fortran": _fortran,
    "large_scores": lambda: drawn(18, batch=2, size=25.0, scale=1.0),
    "tiny_scores": lambda: drawn(19, size=1e-3),
    "unscaled": lambda: drawn(20, scale=1.0),
    "negative_scale": lambda: drawn(21, scale=-0.3),
    "softcap": lambda: drawn(22, size=3.0, softcap=5.0),
    "bias": lambda: drawn(23, batch=2, bias=normal(24, 2, 5, 5)),
    "sinks": lambda: drawn(25, batch=2, heads=3, sinks=np.array([-1.0, 3.3, 12.0])),
    "additive": lambda: drawn(26, batch=2, additive=normal(27, 2, 1, 5, 5)),
    "additive_inf": lambda: drawn(28, batch=2, additive=_hiding(29, -INF, 0.3, 2, 1, 5, 5)),
    "additive_1e9": lambda: drawn(30, batch=2, additive=_hiding(31, -1e9, 0.3, 1, 2, 5, 5)),
    "everything": _everything,
}

# Expressions for every mask, written for two items and seven keys.
KEYS = 7
MASK_SAMPLES: dict[str, tuple[str, ...]] = {
    "none": ("none",),
    "causal": ("causal", "~causal", "causal & (window(3) | sink(1))"),
    "window": ("window(1)", "window(3)", "window(2, both)"),
    "dilated": ("dilated(2, 3)",),
    "sink": ("sink(0)", "sink(2)"),
    "prefix": ("prefix(3)",),
    "global": ("global(0)", "window(2, both) | global(0, 3) | random(2, seed=0)"),
    "block": ("block(3)",),
    "documents": ("documents(3, 4)",),
    "padding": ("padding(5, 2)", "causal & padding(4, 0)"),
    "random": ("random(2)", "random(6, seed=5)"),
    "file": ('file("m.npy")', 'file("m.npy") & causal'),
}
# (queries, q_offset): as many as keys; fewer, at their end; more, the first ones before key 0.
ALIGNMENTS = ((7, 0), (4, 3), (9, -2))


def masked_sample(text: str, queries: int, q_offset: int) -> AttentionInputs:
    """Two items, two heads over one key/value head and seven keys under the mask `text`."""
    plain = drawn(
        40, batch=2, heads=2, kv_heads=1, queries=queries, keys=KEYS, d_v=3, q_offset=q_offset
    )
    array = np.random.default_rng(41).random((2, queries, KEYS)) < 0.6
    return replace(plain, mask=built(text, plain, load=lambda path: array))
