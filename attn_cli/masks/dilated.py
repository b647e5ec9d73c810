"""The mask `dilated`: a window with gaps."""

from __future__ import annotations

from dataclasses import dataclass

from attn_cli.core.masks import BoolArray, IntArray, TileKind
from attn_cli.masks.base import classify, distances
from attn_cli.masks.declaration import MaskKind, Parameter
from attn_cli.masks.formula import Formula, Writing, formula


@dataclass(frozen=True, slots=True)
class Dilated:
    """k = q - i·step for 0 <= i < size: every full row sees exactly `size` keys, its own included.

    >>> from attn_cli.masks.picture import draw
    >>> print(draw(Dilated(2, 3), 5, 5))
    #....
    .#...
    ..#..
    #..#.
    .#..#
    """

    size: int
    step: int

    def __call__(self, b: IntArray, h: IntArray, q_pos: IntArray, k_pos: IntArray) -> BoolArray:
        distance = q_pos - k_pos
        inside = (distance >= 0) & (distance < self.size * self.step)
        on_step: BoolArray = distance % self.step == 0
        return inside & on_step

    def tile(self, b: int, h: int, queries: range, keys: range) -> TileKind:
        nearest, farthest = distances(queries, keys)
        reach = (self.size - 1) * self.step
        seen = range(0, reach + 1, self.step)
        first = max(0, -(-nearest // self.step) * self.step)  # the least multiple in the tile
        every_distance = self.step == 1 or nearest == farthest
        return classify(
            empty=first > min(farthest, reach),
            full=every_distance and nearest in seen and farthest in seen,
        )


def _code(at: Writing, size: int, step: int) -> Formula:
    return formula(
        f"{at.k} <= {at.q}",
        f"{at.q} - {at.k} < {size * step}",
        f"({at.q} - {at.k}) % {step} == 0",
    )


MASK = MaskKind(
    name="dilated",
    signature="dilated(W, s)",
    description="W keys, every s-th back from the query's own: k = q - i*s, 0 <= i < W",
    make=lambda context, size, step: Dilated(size, step),
    code=_code,
    room=lambda size, step: 2 * size * step,
    parameters=(Parameter("W", least=1), Parameter("s", least=1)),
    compares_positions=True,
    by_distance=True,
)
