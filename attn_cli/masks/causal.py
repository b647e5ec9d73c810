"""The mask `causal`: no query sees a later position."""

from __future__ import annotations

from dataclasses import dataclass

from attn_cli.core.masks import BoolArray, IntArray, TileKind
from attn_cli.masks.base import band_tile
from attn_cli.masks.declaration import MaskKind
from attn_cli.masks.formula import formula


@dataclass(frozen=True, slots=True)
class Causal:
    """k <= q: a query sees its own position and every earlier one.

    >>> from attn_cli.masks.picture import draw
    >>> print(draw(Causal(), 3, 3))
    #..
    ##.
    ###
    """

    def __call__(self, b: IntArray, h: IntArray, q_pos: IntArray, k_pos: IntArray) -> BoolArray:
        return k_pos <= q_pos

    def tile(self, b: int, h: int, queries: range, keys: range) -> TileKind:
        return band_tile(queries, keys, least=0)


MASK = MaskKind(
    name="causal",
    signature="causal",
    description="a query sees its own position and every earlier one: k <= q",
    make=lambda context: Causal(),
    code=lambda at: formula(f"{at.k} <= {at.q}"),
    compares_positions=True,
    by_distance=True,
)
