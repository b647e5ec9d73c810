"""The algebra of masks: And, Or, Not, and what they and their parts say of a tile."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce

import numpy as np

from attn_cli.core.masks import BoolArray, IntArray, Mask, TileKind


@dataclass(frozen=True, slots=True)
class And:
    """What every part lets through.

    >>> from attn_cli.masks.picture import draw
    >>> from attn_cli.masks.causal import Causal
    >>> from attn_cli.masks.sink import Sink
    >>> print(draw(And((Causal(), Sink(2))), 4, 4))
    #...
    ##..
    ##..
    ##..
    """

    parts: tuple[Mask, ...]

    def __call__(self, b: IntArray, h: IntArray, q_pos: IntArray, k_pos: IntArray) -> BoolArray:
        return reduce(np.logical_and, (part(b, h, q_pos, k_pos) for part in self.parts))

    def tile(self, b: int, h: int, queries: range, keys: range) -> TileKind:
        full = True
        for part in self.parts:
            kind = part.tile(b, h, queries, keys)
            if kind is TileKind.EMPTY:
                return TileKind.EMPTY
            full = full and kind is TileKind.FULL
        return TileKind.FULL if full else TileKind.MIXED


@dataclass(frozen=True, slots=True)
class Or:
    """What at least one part lets through.

    >>> from attn_cli.masks.picture import draw
    >>> from attn_cli.masks.sink import Sink
    >>> from attn_cli.masks.window import Window
    >>> print(draw(Or((Window(1), Sink(1))), 4, 4))
    #...
    ##..
    #.#.
    #..#
    """

    parts: tuple[Mask, ...]

    def __call__(self, b: IntArray, h: IntArray, q_pos: IntArray, k_pos: IntArray) -> BoolArray:
        return reduce(np.logical_or, (part(b, h, q_pos, k_pos) for part in self.parts))

    def tile(self, b: int, h: int, queries: range, keys: range) -> TileKind:
        empty = True
        for part in self.parts:
            kind = part.tile(b, h, queries, keys)
            if kind is TileKind.FULL:
                return TileKind.FULL
            empty = empty and kind is TileKind.EMPTY
        return TileKind.EMPTY if empty else TileKind.MIXED


@dataclass(frozen=True, slots=True)
class Not:
    """What the part hides.

    >>> from attn_cli.masks.picture import draw
    >>> from attn_cli.masks.causal import Causal
    >>> print(draw(Not(Causal()), 3, 4))
    .###
    ..##
    ...#
    """

    part: Mask

    def __call__(self, b: IntArray, h: IntArray, q_pos: IntArray, k_pos: IntArray) -> BoolArray:
        return np.logical_not(self.part(b, h, q_pos, k_pos))

    def tile(self, b: int, h: int, queries: range, keys: range) -> TileKind:
        return _OPPOSITE[self.part.tile(b, h, queries, keys)]


_OPPOSITE = {
    TileKind.EMPTY: TileKind.FULL,
    TileKind.FULL: TileKind.EMPTY,
    TileKind.MIXED: TileKind.MIXED,
}


def classify(*, empty: bool, full: bool) -> TileKind:
    """The kind of a tile of which one of these is known, or neither."""
    if empty:
        return TileKind.EMPTY
    return TileKind.FULL if full else TileKind.MIXED


def distances(queries: range, keys: range) -> tuple[int, int]:
    """The least and the greatest q − k in a tile; every whole number between occurs in it."""
    return queries.start - (keys.stop - 1), (queries.stop - 1) - keys.start


def band_tile(queries: range, keys: range, *, least: int, most: float = math.inf) -> TileKind:
    """The kind of a tile under `least <= q - k <= most`."""
    nearest, farthest = distances(queries, keys)
    return classify(
        empty=farthest < least or nearest > most,
        full=nearest >= least and farthest <= most,
    )
