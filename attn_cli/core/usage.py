"""Usage: which queries see a key and which keys are seen, tile by tile, without an L × S array."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.masks import BoolArray, TileKind

Bools = NDArray[np.bool_]

TILE = 1024  # queries and keys that are asked about at once


def visible_block(inputs: AttentionInputs, b: int, queries: range, keys: range) -> BoolArray:
    """(H, n, m): which of these keys take part for which of these queries of item `b`, by index.

    As `AttentionInputs.visible` has it: hidden is what the mask hides and what −inf is added to.
    """
    heads, shape = inputs.shape[1], (inputs.shape[1], len(queries), len(keys))
    seen: BoolArray = np.ones(shape, bool)
    if inputs.mask is not None:
        at = queries.start + (inputs.q_offset or 0)
        q_pos = np.arange(at, at + len(queries)).reshape(1, -1, 1)
        k_pos = np.arange(keys.start, keys.stop).reshape(1, 1, -1)
        item, head = np.full((1, 1, 1), b), np.arange(heads).reshape(-1, 1, 1)
        seen = np.broadcast_to(inputs.mask(item, head, q_pos, k_pos), shape)
    for array in (inputs.additive, inputs.bias):
        if array is not None:
            whole = np.broadcast_to(array, inputs.shape)[b]
            part = whole[:, queries.start : queries.stop, keys.start : keys.stop]
            seen = seen & ~np.isneginf(part)
    return seen


def seeing_queries(inputs: AttentionInputs, b: int) -> Bools:
    """(H, L): the queries of item `b` that see a key."""
    found = np.zeros(inputs.shape[1:3], bool)
    for q, k in _tiles(inputs):
        rows = found[:, q.start : q.stop]
        if not rows.all():
            rows |= _seen(inputs, b, q, k).any(2)
    return found


def seen_keys(inputs: AttentionInputs, b: int) -> Bools:
    """(H, S): the keys of item `b` that a query sees."""
    found = np.zeros((inputs.shape[1], inputs.shape[3]), bool)
    for q, k in _tiles(inputs):
        columns = found[:, k.start : k.stop]
        if not columns.all():
            columns |= _seen(inputs, b, q, k).any(1)
    return found


def hidden_keys(inputs: AttentionInputs, b: int) -> Bools:
    """(H, S): the keys of item `b` that some query does not see."""
    found = np.zeros((inputs.shape[1], inputs.shape[3]), bool)
    for q, k in _tiles(inputs):
        columns = found[:, k.start : k.stop]
        if not columns.all():
            columns |= ~_seen(inputs, b, q, k).all(1)
    return found


def _tiles(inputs: AttentionInputs) -> Iterator[tuple[range, range]]:
    """Every tile of queries and keys, by index."""
    _, _, queries, keys = inputs.shape
    yield from product(covering(queries, TILE), covering(keys, TILE))


def covering(length: int, size: int) -> list[range]:
    """`length` positions in ranges of `size`, the last one perhaps shorter."""
    return [range(at, min(at + size, length)) for at in range(0, length, size)]


def _seen(inputs: AttentionInputs, b: int, queries: range, keys: range) -> Bools:
    """The visible pairs of a tile; where the mask knows it whole, one pair that stands for all."""
    if inputs.mask is not None and not inputs.hides_by_adding:
        at = inputs.q_offset or 0
        absolute = range(queries.start + at, queries.stop + at)
        kinds = {inputs.mask.tile(b, h, absolute, keys) for h in range(inputs.shape[1])}
        if len(kinds) == 1 and TileKind.MIXED not in kinds:
            return np.full((1, 1, 1), TileKind.FULL in kinds)
    return visible_block(inputs, b, queries, keys)
