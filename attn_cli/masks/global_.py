"""The mask `global`: tokens that see all and are seen by all."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from attn_cli.core.masks import BoolArray, IntArray, Mask, MaskContext, TileKind
from attn_cli.errors import MisfitError
from attn_cli.masks.base import classify
from attn_cli.masks.declaration import MaskKind, Parameter
from attn_cli.masks.formula import Formula, Writing, formula, literal

FEW = 4  # positions that pasted code compares one by one


@dataclass(frozen=True, slots=True)
class Global:
    """q or k is one of `positions`, which are sorted and distinct.

    >>> from attn_cli.masks.picture import draw
    >>> print(draw(Global((0, 2)), 4, 4))
    ####
    #.#.
    ####
    #.#.
    """

    positions: tuple[int, ...]

    def __call__(self, b: IntArray, h: IntArray, q_pos: IntArray, k_pos: IntArray) -> BoolArray:
        return np.isin(q_pos, self.positions) | np.isin(k_pos, self.positions)

    def tile(self, b: int, h: int, queries: range, keys: range) -> TileKind:
        rows, columns = self._inside(queries), self._inside(keys)
        return classify(
            empty=rows == columns == 0,
            full=rows == len(queries) or columns == len(keys),
        )

    def _inside(self, stretch: range) -> int:
        """How many of the positions lie in it."""
        return bisect_left(self.positions, stretch.stop) - bisect_left(
            self.positions, stretch.start
        )


def _make(context: MaskContext, positions: tuple[int, ...]) -> Mask:
    queries = range(context.q_offset, context.q_offset + context.queries)
    for position in positions:
        if position not in queries and position >= context.keys:
            raise MisfitError(
                f"global({position}) is neither a key nor a query: the keys are 0 to "
                f"{context.keys - 1}, the queries stand at {queries.start} to {queries.stop - 1}",
                hint="positions count from 0",
            )
    return Global(tuple(sorted(set(positions))))


def _code(at: Writing, positions: tuple[int, ...]) -> Formula:
    """Few positions are compared one by one, many are looked up in a table."""
    positions = tuple(sorted(set(positions)))
    if len(positions) <= FEW:
        return formula(*(f"{x} == {p}" for p in positions for x in (at.q, at.k)), operator="|")
    first, table = min(at.context.q_offset, 0), at.name("is_global")
    last = max(at.context.q_offset + at.context.queries, at.context.keys)
    back = f" + {-first}" if first else ""
    setup = [
        f"{table} = torch.zeros({last - first}, dtype=torch.bool, device=device)",
        literal([position - first for position in positions], f"{table}[", "] = True"),
    ]
    seen = (f"{table}[{at.q}{back}]", f"{table}[{at.k}{back}]")
    return formula(*seen, operator="|", setup=setup)


MASK = MaskKind(
    name="global",
    signature="global(i, j, …)",
    description="the tokens at positions i, j, … see every key, and every query sees them",
    make=_make,
    code=_code,
    room=lambda positions: max(positions) + 1,
    parameters=(Parameter("i, j, …", "numbers", fewest=1),),
    compares_positions=True,  # a token is both a query and a key: which query is it?
)
