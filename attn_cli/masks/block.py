"""The mask `block`: blocks of equal size along the diagonal."""

from __future__ import annotations

from dataclasses import dataclass

from attn_cli.core.masks import BoolArray, IntArray, TileKind
from attn_cli.masks.base import classify
from attn_cli.masks.declaration import MaskKind, Parameter
from attn_cli.masks.formula import formula


@dataclass(frozen=True, slots=True)
class Block:
    """q // size == k // size: a query sees its own block, in both directions.

    Division rounds down, so a query before position 0 (lower-right alignment of more queries than
    keys) stands in a block without keys and sees nothing.

    >>> from attn_cli.masks.picture import draw
    >>> print(draw(Block(2), 5, 5))
    ##...
    ##...
    ..##.
    ..##.
    ....#
    """

    size: int

    def __call__(self, b: IntArray, h: IntArray, q_pos: IntArray, k_pos: IntArray) -> BoolArray:
        same: BoolArray = q_pos // self.size == k_pos // self.size
        return same

    def tile(self, b: int, h: int, queries: range, keys: range) -> TileKind:
        first_q, last_q = queries.start // self.size, (queries.stop - 1) // self.size
        first_k, last_k = keys.start // self.size, (keys.stop - 1) // self.size
        return classify(
            empty=last_q < first_k or last_k < first_q,
            full=first_q == last_q == first_k == last_k,
        )


MASK = MaskKind(
    name="block",
    signature="block(s)",
    description="a query sees the s positions of its own block: q//s == k//s",
    make=lambda context, size: Block(size),
    code=lambda at, size: formula(f"{at.q} // {size} == {at.k} // {size}"),
    room=lambda size: 2 * size,
    parameters=(Parameter("s", least=1),),
    compares_positions=True,
)
