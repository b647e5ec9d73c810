"""The mask `none`: hides nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attn_cli.core.masks import BoolArray, IntArray, TileKind
from attn_cli.masks.declaration import MaskKind
from attn_cli.masks.formula import formula


@dataclass(frozen=True, slots=True)
class Unmasked:
    """Every query sees every key.

    >>> from attn_cli.masks.picture import draw
    >>> print(draw(Unmasked(), 2, 3))
    ###
    ###
    """

    def __call__(self, b: IntArray, h: IntArray, q_pos: IntArray, k_pos: IntArray) -> BoolArray:
        return np.ones((1,) * max(q_pos.ndim, k_pos.ndim), dtype=np.bool_)

    def tile(self, b: int, h: int, queries: range, keys: range) -> TileKind:
        return TileKind.FULL


MASK = MaskKind(
    name="none",
    signature="none",
    description="hides nothing",
    make=lambda context: Unmasked(),
    code=lambda at: formula(f"{at.k} >= 0"),
    by_distance=True,
)
