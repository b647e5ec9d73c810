"""The mask `documents`: sequences packed one after another that do not see each other."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from attn_cli.core.masks import BoolArray, IntArray, Mask, MaskContext, TileKind
from attn_cli.errors import MisfitError
from attn_cli.masks.base import classify
from attn_cli.masks.declaration import MaskKind, Parameter
from attn_cli.masks.formula import Formula, Writing, formula, literal


@dataclass(frozen=True, slots=True)
class Documents:
    """q and k lie in the same document; `ends[i]` is the position after document i.

    A query before the first document or after the last one sees nothing.

    >>> from attn_cli.masks.picture import draw
    >>> print(draw(Documents((2, 5)), 6, 5))
    ##...
    ##...
    ..###
    ..###
    ..###
    .....
    """

    ends: tuple[int, ...]

    def __call__(self, b: IntArray, h: IntArray, q_pos: IntArray, k_pos: IntArray) -> BoolArray:
        of_query = np.searchsorted(self.ends, q_pos, side="right")
        of_key = np.searchsorted(self.ends, k_pos, side="right")
        exists = (q_pos >= 0) & (q_pos < self.ends[-1])
        same: BoolArray = of_query == of_key
        return exists & same

    def tile(self, b: int, h: int, queries: range, keys: range) -> TileKind:
        inside = range(max(queries.start, 0), min(queries.stop, self.ends[-1]))
        if not inside:
            return TileKind.EMPTY
        first_q, last_q = self._document(inside.start), self._document(inside.stop - 1)
        first_k, last_k = self._document(keys.start), self._document(keys.stop - 1)
        return classify(
            empty=last_q < first_k or last_k < first_q,
            full=inside == queries and first_q == last_q == first_k == last_k,
        )

    def _document(self, position: int) -> int:
        return bisect_right(self.ends, position)


def _make(context: MaskContext, lengths: tuple[int, ...]) -> Mask:
    if sum(lengths) != context.keys:
        raise MisfitError(
            f"the lengths of documents add up to {sum(lengths)}, and there are {context.keys} keys",
            hint="every key belongs to one document",
        )
    return Documents(tuple(accumulate(lengths)))


def _code(at: Writing, lengths: tuple[int, ...]) -> Formula:
    """The document of each key in a table, in which queries find theirs by position."""
    table, keys = at.name("document"), at.context.keys
    setup = literal(
        lengths, f"{table} = torch.repeat_interleave(torch.tensor(", ", device=device))"
    )
    first = at.context.q_offset
    if first >= 0 and first + at.context.queries <= keys:
        return formula(f"{table}[{at.q}] == {table}[{at.k}]", setup=[setup])
    inside = f"{table}[{at.q}.clamp(0, {keys - 1})] == {table}[{at.k}]"
    return formula(f"{at.q} >= 0", f"{at.q} < {keys}", inside, setup=[setup])


MASK = MaskKind(
    name="documents",
    signature="documents(a, b, …)",
    description="packed documents of a, b, … tokens, which add up to the keys: "
    "a query sees its own document",
    make=_make,
    code=_code,
    room=lambda lengths: sum(lengths),
    fixed=True,
    parameters=(Parameter("a, b, …", "numbers", least=1, fewest=1),),
    compares_positions=True,
)
