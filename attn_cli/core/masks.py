"""The Mask protocol: which key may a query see? A function of absolute positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.integer[Any]]


class TileKind(Enum):
    """What a mask lets through in a tile of queries × keys."""

    EMPTY = "empty"  # nothing: the tile need not be computed
    FULL = "full"  # everything: the mask need not be evaluated
    MIXED = "mixed"  # evaluate it


class Mask(Protocol):
    """True = may attend (the polarity of PyTorch's SDPA and of FlexAttention)."""

    def __call__(self, b: IntArray, h: IntArray, q_pos: IntArray, k_pos: IntArray) -> BoolArray:
        """The mask at integer index arrays that broadcast; the result broadcasts to their shape.

        Axes that the mask does not depend on may have size 1: `sink` is (1, 1, 1, S).
        """
        ...

    def tile(self, b: int, h: int, queries: range, keys: range) -> TileKind:
        """What it lets through for one batch item and head in a tile of consecutive positions.

        EMPTY and FULL are promises; MIXED is always a right answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class MaskContext:
    """What a mask needs to know of the run it is built for.

    Query i sits at absolute position `q_offset` + i (S − L for lower-right alignment);
    `aligned` is False where L ≠ S and nobody has said how the positions line up.
    `load` reads an array from a file that the mask names.
    """

    batch: int
    heads: int
    queries: int
    keys: int
    q_offset: int = 0
    aligned: bool = True
    lengths: tuple[int, ...] | None = None
    load: Callable[[str], NDArray[Any]] | None = None


def evaluate(mask: Mask, *, batch: int, heads: int, queries: range, keys: range) -> BoolArray:
    """The whole mask as a (B, H, L, S) array of bool over ranges of absolute positions."""
    b = np.arange(batch).reshape(-1, 1, 1, 1)
    h = np.arange(heads).reshape(1, -1, 1, 1)
    q_pos = np.arange(queries.start, queries.stop).reshape(1, 1, -1, 1)
    k_pos = np.arange(keys.start, keys.stop).reshape(1, 1, 1, -1)
    shape = (batch, heads, len(queries), len(keys))
    return np.broadcast_to(mask(b, h, q_pos, k_pos), shape)
