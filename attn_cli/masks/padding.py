"""The mask `padding`: the keys behind the end of a shorter sequence are hidden."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attn_cli.core.masks import BoolArray, IntArray, Mask, MaskContext, TileKind
from attn_cli.errors import InputError, MisfitError
from attn_cli.masks.base import classify
from attn_cli.masks.declaration import MaskKind, Parameter
from attn_cli.masks.formula import Formula, Writing, formula, literal


@dataclass(frozen=True, slots=True)
class Padding:
    """k < lengths[b]: the real keys of each batch item; padded queries are left as they are.

    >>> from attn_cli.masks.picture import draw
    >>> print(draw(Padding((3, 1)), 2, 4, item=0))
    ###.
    ###.
    >>> print(draw(Padding((3, 1)), 2, 4, item=1))
    #...
    #...
    """

    lengths: tuple[int, ...]  # one for each batch item

    def __call__(self, b: IntArray, h: IntArray, q_pos: IntArray, k_pos: IntArray) -> BoolArray:
        return k_pos < np.array(self.lengths)[b]

    def tile(self, b: int, h: int, queries: range, keys: range) -> TileKind:
        length = self.lengths[b]
        return classify(empty=keys.start >= length, full=keys.stop <= length)


def _make(context: MaskContext, given: tuple[int, ...]) -> Mask:
    lengths = _lengths(context, given)
    if len(lengths) not in (1, context.batch):
        raise MisfitError(
            f"padding has {len(lengths)} lengths, and the batch has {context.batch} items",
            hint="give one length for each item, or one for all",
        )
    for length in lengths:
        if not 0 <= length <= context.keys:
            raise MisfitError(
                f"padding has a length of {length}, and there are {context.keys} keys",
                hint="a length counts the real keys of an item, so it lies between 0 and all",
            )
    return Padding(tuple(lengths) if len(lengths) > 1 else tuple(lengths) * context.batch)


def _lengths(context: MaskContext, given: tuple[int, ...]) -> tuple[int, ...]:
    lengths = given or context.lengths
    if lengths is None:
        raise InputError(
            "padding without lengths takes those of the file, and it has none",
            hint="write them, padding(3, 5) for a batch of two, or put `lengths` into the file",
        )
    return lengths


def _code(at: Writing, given: tuple[int, ...]) -> Formula:
    lengths = _lengths(at.context, given)
    if len(lengths) == 1:
        return formula(f"{at.k} < {lengths[0]}")
    table = at.name("lengths")
    setup = literal(lengths, f"{table} = torch.tensor(", ", device=device)")
    return formula(f"{at.k} < {table}[{at.b}]", setup=[setup])


MASK = MaskKind(
    name="padding",
    signature="padding(a, b, …) or padding",
    description="the first a keys of item 0, the first b of item 1, …; one length serves all; "
    "without any, the file's lengths",
    make=_make,
    code=_code,
    room=lambda lengths: max(lengths, default=1),
    parameters=(Parameter("a, b, …", "numbers"),),
)
