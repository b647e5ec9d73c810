"""The mask `file`: an array that somebody has stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.masks import BoolArray, IntArray, Mask, MaskContext, TileKind
from attn_cli.errors import InputError, MisfitError, UnsupportedError
from attn_cli.masks.base import classify
from attn_cli.masks.declaration import MaskKind, Parameter
from attn_cli.masks.formula import Formula, Writing


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """`visible` at [item, head, query's row, key], (B, H, L, S); row 0 is the query at `q_offset`.

    Positions outside the array have no meaning.

    >>> from attn_cli.masks.picture import draw
    >>> array = np.array([[True, False, True], [False, False, True]])
    >>> print(draw(Stored(array[np.newaxis, np.newaxis], q_offset=1), range(1, 3), 3))
    #.#
    ..#
    """

    visible: BoolArray
    q_offset: int = 0

    def __call__(self, b: IntArray, h: IntArray, q_pos: IntArray, k_pos: IntArray) -> BoolArray:
        return self.visible[b, h, q_pos - self.q_offset, k_pos]

    def tile(self, b: int, h: int, queries: range, keys: range) -> TileKind:
        rows = slice(queries.start - self.q_offset, queries.stop - self.q_offset)
        part = self.visible[b, h, rows, keys.start : keys.stop]
        return classify(empty=not part.any(), full=bool(part.all()))


def _make(context: MaskContext, path: str) -> Mask:
    if context.load is None:
        raise UnsupportedError(
            f'file("{path}") cannot be read here', hint="give the array as the mask of the input"
        )
    keep = _keep(context.load(path), path)
    return Stored(_spread(keep, path, context), context.q_offset)


def _keep(array: NDArray[Any], path: str) -> BoolArray:
    """The array as True = may attend; InputError unless it is bool or 0/1."""
    if array.dtype == np.bool_:
        return array
    if array.dtype.kind not in "iuf":
        raise InputError(
            f"{path} holds {array.dtype}, and a mask is bool or 0/1",
            hint="store True or 1 where a query may attend",
        )
    odd = array[(array != 0) & (array != 1)]
    if odd.size:
        raise InputError(
            f"{path} holds {odd[0]}, and file(…) reads bool or 0/1: it looks like an additive mask",
            hint="store (mask == 0), or give it as `mask` of the input with --mask-means additive",
        )
    if array.dtype.kind == "f" and not array.any():
        raise InputError(
            f"{path} holds floats that are all 0: as an additive mask they hide nothing, "
            "as 0/1 they hide everything",
            hint="store it as bool: True where a query may attend",
        )
    keep: BoolArray = array != 0
    return keep


def _spread(keep: BoolArray, path: str, context: MaskContext) -> BoolArray:
    """The array as (B, H, L, S), without a copy; InputError names both shapes."""
    full = (context.batch, context.heads, context.queries, context.keys)
    error = MisfitError(
        f"{path} has shape {keep.shape}, and the scores are {full}",
        hint="a mask file is (query, key), (batch, query, key) or (batch, head, query, key)",
    )
    if keep.ndim not in (2, 3, 4):
        raise error
    # A third axis is the batch, so the heads come between it and the query.
    named = keep[:, np.newaxis] if keep.ndim == 3 else keep
    try:
        return np.broadcast_to(named, full)
    except ValueError:
        raise error from None


def _code(at: Writing, path: str) -> Formula:
    """The file is loaded and looked up; `at.loading` knows how it is loaded as bool."""
    context = at.context
    if context.load is None or at.loading is None:
        raise UnsupportedError(f'file("{path}") cannot be written as code here')
    loaded, imports = at.loading(path)
    sizes = {at.b: context.batch, at.h: context.heads, at.row: context.queries, at.k: context.keys}
    named = {2: (), 3: (at.b,), 4: (at.b, at.h)}[context.load(path).ndim]
    axes = (*named, at.row, at.k)
    table = at.name("stored")
    shape = ", ".join(str(sizes[axis]) for axis in axes)
    setup = f"{table} = torch.as_tensor({loaded}, device=device).expand({shape})"
    return Formula((f"{table}[{', '.join(axes)}]",), setup=(setup,), imports=imports)


MASK = MaskKind(
    name="file",
    signature='file("m.npy")',
    description="an array, True or 1 where a query may attend: (query, key), (batch, query, key) "
    "or (batch, head, query, key)",
    make=_make,
    code=_code,
    scattered=True,
    parameters=(Parameter("path", "text"),),
)
