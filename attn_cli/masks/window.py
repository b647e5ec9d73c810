"""The mask `window`: a query sees the keys near it."""

from __future__ import annotations

from dataclasses import dataclass

from attn_cli.core.masks import BoolArray, IntArray, TileKind
from attn_cli.masks.base import band_tile
from attn_cli.masks.declaration import MaskKind, Parameter
from attn_cli.masks.formula import Formula, Writing, formula


@dataclass(frozen=True, slots=True)
class Window:
    """q - size < k <= q: every full row sees exactly `size` keys, the query's own included.

    With `both` the same number after it as well: abs(q - k) < size, 2·size - 1 keys in a full row.

    >>> from attn_cli.masks.picture import draw
    >>> print(draw(Window(2), 4, 4))
    #...
    ##..
    .##.
    ..##
    >>> print(draw(Window(2, both=True), 4, 4))
    ##..
    ###.
    .###
    ..##
    """

    size: int
    both: bool = False

    def __call__(self, b: IntArray, h: IntArray, q_pos: IntArray, k_pos: IntArray) -> BoolArray:
        if self.both:
            return (k_pos > q_pos - self.size) & (k_pos < q_pos + self.size)
        return (k_pos > q_pos - self.size) & (k_pos <= q_pos)

    def tile(self, b: int, h: int, queries: range, keys: range) -> TileKind:
        reach = self.size - 1
        return band_tile(queries, keys, least=-reach if self.both else 0, most=reach)


def _code(at: Writing, size: int, both: bool) -> Formula:
    if both:
        return formula(f"({at.q} - {at.k}).abs() < {size}")
    return formula(f"{at.k} <= {at.q}", f"{at.k} > {at.q} - {size}")


MASK = MaskKind(
    name="window",
    signature="window(W) or window(W, both)",
    description="the W keys up to the query's own, itself included: q-W < k <= q; "
    "both: as far to each side, abs(q-k) < W",
    make=lambda context, size, both: Window(size, both),
    code=_code,
    room=lambda size, both: 2 * size,
    parameters=(Parameter("W", least=1), Parameter("both", "word")),
    compares_positions=True,
    by_distance=True,
)
