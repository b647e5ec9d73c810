"""Leaves: the inputs of one question that have a gradient, and where it must be exactly 0."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.layer import Projections

Array = NDArray[Any]
BoolArray = NDArray[np.bool_]

SCORE_AXES = ("batch", "head", "query", "key")
MATRICES = ("w_q", "w_k", "w_v", "w_o")
BIASES = ("b_q", "b_k", "b_v", "b_o")


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """An array with a gradient, in float64, its axes by name; `zero`: True where nobody sees it.

    There its gradient must be 0 to the last bit, since hidden keys and empty rows take no part.
    """

    name: str
    array: Array
    axes: tuple[str, ...]
    zero: BoolArray


def leaves(inputs: AttentionInputs) -> tuple[Leaf, ...]:
    """Everything of the question that has a gradient.

    q, k, v or, where they are made from token vectors, x (and context) and the projections; then
    bias, additive mask and sinks as far as there are such; and `scores` (B, H, L, S), zeros added
    to the biased scores, whose gradient is that of the scores as they come to the mask.
    """
    return (*_sources(inputs), *_added(inputs))


def core_question(inputs: AttentionInputs) -> AttentionInputs:
    """The same attention from q, k and v as they are, whatever made them."""
    return replace(inputs, origin=None, x=None)


def _sources(inputs: AttentionInputs) -> Iterator[Leaf]:
    empty, unseen = _empty(inputs), _unseen(inputs)
    if (origin := inputs.origin) is None:
        group = inputs.shape[1] // inputs.kv_heads
        B, _, S = unseen.shape
        shared = np.asarray(unseen.reshape(B, -1, group, S).all(axis=2))  # (B, Hkv, S)
        yield _leaf("q", inputs.q, ("batch", "head", "query", "d_k"), empty[..., None])
        yield _leaf("k", inputs.k, ("batch", "head", "key", "d_k"), shared[..., None])
        yield _leaf("v", inputs.v, ("batch", "head", "key", "d_v"), shared[..., None])
        return
    queries = np.asarray(empty.all(axis=1))[..., None]  # (B, L, 1)
    keys = np.asarray(unseen.all(axis=1))[..., None]  # (B, S, 1)
    alone = queries if origin.context is not None else queries & keys
    yield _leaf("x", origin.x, ("batch", "query", "d_model"), alone)
    if origin.context is not None:
        yield _leaf("context", origin.context, ("batch", "key", "d_context"), keys)
    if origin.projections is not None:
        yield from _parameters(origin.projections)


def _parameters(weights: Projections) -> Iterator[Leaf]:
    for name in (*MATRICES, *BIASES):
        array = getattr(weights, name)
        if array is not None:
            yield _leaf(name, array, ("in", "out") if name in MATRICES else ("out",), False)


def _added(inputs: AttentionInputs) -> Iterator[Leaf]:
    visible = inputs.visible()
    hidden = np.zeros(inputs.shape, bool) if visible is None else ~visible
    for name in ("bias", "additive"):
        array = getattr(inputs, name)
        if array is not None:
            padded = array.reshape((1,) * (4 - array.ndim) + array.shape)
            wide = tuple(axis for axis, size in enumerate(padded.shape) if size == 1)
            yield _leaf(name, padded, SCORE_AXES, hidden.all(wide, keepdims=True))
    if inputs.sinks is not None:
        yield _leaf("sinks", inputs.sinks, ("head",), _empty(inputs).all((0, 2)))
    yield _leaf("scores", np.zeros(inputs.shape), SCORE_AXES, hidden)


def _leaf(name: str, array: Array, axes: tuple[str, ...], zero: Any) -> Leaf:
    wide = array.astype(np.float64)  # a copy: what is moved is nobody's input
    return Leaf(name, wide, axes, np.broadcast_to(np.asarray(zero, bool), wide.shape))


def _empty(inputs: AttentionInputs) -> BoolArray:
    """(B, H, L): the rows that see no key."""
    visible = inputs.visible()
    if visible is None:
        return np.zeros(inputs.shape[:3], bool)
    empty: BoolArray = np.logical_not(visible.any(-1))
    return empty


def _unseen(inputs: AttentionInputs) -> BoolArray:
    """(B, H, S): the keys that no query of a head sees."""
    B, H, _, S = inputs.shape
    visible = inputs.visible()
    if visible is None:
        return np.zeros((B, H, S), bool)
    unseen: BoolArray = np.logical_not(visible.any(-2))
    return unseen
