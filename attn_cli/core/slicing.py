"""Slicing: the question of one batch item, of a head or of some rows, as inputs of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs, Labels
from attn_cli.core.layer import Origin
from attn_cli.core.masks import BoolArray, IntArray, Mask, TileKind
from attn_cli.core.positions import ScoreBias

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class PartOfMask:
    """A mask seen from item `item`, head `head` on: both count from 0 there.

    So do queries from `query` on, where positions have no common origin that would tell them.
    """

    whole: Mask
    item: int
    head: int
    query: int = 0

    def __call__(self, b: IntArray, h: IntArray, q_pos: IntArray, k_pos: IntArray) -> BoolArray:
        return self.whole(b + self.item, h + self.head, q_pos + self.query, k_pos)

    def tile(self, b: int, h: int, queries: range, keys: range) -> TileKind:
        moved = range(queries.start + self.query, queries.stop + self.query)
        return self.whole.tile(b + self.item, h + self.head, moved, keys)


@dataclass(frozen=True, slots=True)
class PartOfBias:
    """A position bias seen from item `item`, head `head` on."""

    whole: ScoreBias
    item: int
    head: int

    @property
    def name(self) -> str:
        return self.whole.name

    def __call__(self, b: Array, h: Array, q_pos: Array, k_pos: Array) -> Array:
        return self.whole(b + self.item, h + self.head, q_pos, k_pos)


def one_item(inputs: AttentionInputs, b: int) -> AttentionInputs:
    """The question of batch item `b`, with all its heads: B is 1. Arrays are views."""
    item = slice(b, b + 1)
    return replace(
        _narrowed(inputs, b, 0, inputs.shape[1]),
        x=None if inputs.x is None else inputs.x[item],
        origin=None if inputs.origin is None else _origin(inputs.origin, item),
    )


def one_head(inputs: AttentionInputs, b: int, h: int) -> AttentionInputs:
    """The question of one query head of item `b`, from q, k and v on: B, H and Hkv are 1.

    What q, k and v were made of is left behind.
    """
    return _narrowed(inputs, b, h, h + 1)


def some_rows(inputs: AttentionInputs, b: int, heads: range, queries: range) -> AttentionInputs:
    """The question of consecutive queries of consecutive heads of item `b`, from q, k and v on.

    B is 1; Hkv is the number of key/value heads that these heads read, all of which must read as
    many, or be one head. What q, k and v were made of is left behind. Arrays are views.
    """
    part = _narrowed(inputs, b, heads.start, heads.stop)
    rows = slice(queries.start, queries.stop)
    mask = part.mask
    if isinstance(mask, PartOfMask) and inputs.q_offset is None:
        mask = replace(mask, query=queries.start)
    labels = part.labels
    if labels is not None:
        labels = Labels((labels.query[0][rows],), labels.key)
    return replace(
        part,
        q=part.q[:, :, rows],
        mask=mask,
        additive=None if part.additive is None else _rows_of(part.additive, inputs, rows),
        bias=None if part.bias is None else _rows_of(part.bias, inputs, rows),
        q_offset=None if inputs.q_offset is None else inputs.q_offset + queries.start,
        labels=labels,
        query_lengths=None,
    )


def _rows_of(array: Array, inputs: AttentionInputs, rows: slice) -> Array:
    """Rows of what is added to the scores; an axis of size 1 has every row's numbers."""
    return np.broadcast_to(array, (*array.shape[:2], *inputs.shape[2:]))[:, :, rows]


def _narrowed(inputs: AttentionInputs, b: int, first: int, last: int) -> AttentionInputs:
    group = inputs.shape[1] // inputs.kv_heads
    item, heads = slice(b, b + 1), slice(first, last)
    kv = slice(first // group, (last - 1) // group + 1)
    mask, bias = inputs.mask, inputs.position_bias
    return replace(
        inputs,
        q=inputs.q[item, heads],
        k=inputs.k[item, kv],
        v=inputs.v[item, kv],
        mask=None if mask is None else PartOfMask(mask, b, first),
        position_bias=None if bias is None else PartOfBias(bias, b, first),
        additive=_part(inputs.additive, inputs.shape, item, heads),
        bias=_part(inputs.bias, inputs.shape, item, heads),
        sinks=None if inputs.sinks is None else inputs.sinks[heads],
        labels=None if inputs.labels is None else _labels(inputs.labels, item),
        query_lengths=None if inputs.query_lengths is None else inputs.query_lengths[item],
        x=None,
        origin=None,
    )


def _part(array: Array | None, shape: tuple[int, ...], item: slice, heads: slice) -> Array | None:
    return None if array is None else np.broadcast_to(array, shape)[item, heads]


def _labels(labels: Labels, item: slice) -> Labels:
    return Labels(labels.query[item], labels.key[item])


def _origin(origin: Origin, item: slice) -> Origin:
    context = None if origin.context is None else origin.context[item]
    return replace(origin, x=origin.x[item], context=context)
