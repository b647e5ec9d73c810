"""The mask `sink`: the first keys, which every query sees."""

from __future__ import annotations

from dataclasses import dataclass

from attn_cli.core.masks import BoolArray, IntArray, TileKind
from attn_cli.masks.base import classify
from attn_cli.masks.declaration import MaskKind, Parameter
from attn_cli.masks.formula import formula


@dataclass(frozen=True, slots=True)
class Sink:
    """k < size, whatever the query.

    >>> from attn_cli.masks.picture import draw
    >>> print(draw(Sink(2), 3, 4))
    ##..
    ##..
    ##..
    """

    size: int

    def __call__(self, b: IntArray, h: IntArray, q_pos: IntArray, k_pos: IntArray) -> BoolArray:
        return k_pos < self.size

    def tile(self, b: int, h: int, queries: range, keys: range) -> TileKind:
        return classify(empty=keys.start >= self.size, full=keys.stop <= self.size)


MASK = MaskKind(
    name="sink",
    signature="sink(n)",
    description="the first n keys, for every query: k < n",
    make=lambda context, size: Sink(size),
    code=lambda at, size: formula(f"{at.k} < {size}"),
    room=lambda size: size + 1,
    parameters=(Parameter("n"),),
)
