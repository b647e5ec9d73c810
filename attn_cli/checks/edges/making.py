"""Making: draws the questions of one kind, and puts masks on them."""

from __future__ import annotations

import zlib
from collections.abc import ItemsView, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from attn_cli.checks.edges.case import Case, Expected
from attn_cli.core.draws import normal
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.masks import MaskContext
from attn_cli.core.rounding import Precision, precision, round_to
from attn_cli.masks.expression import parse

Array = NDArray[Any]
Align = Literal["upper-left", "lower-right"]
Sizes = dict[str, Any]  # what is special about a question: arguments of Making.question
STORED = 'file("mask.npy")'
WIDTH = 8  # of a head


@dataclass(frozen=True, slots=True)
class Making:
    """Draws for the cases of `kind` in `dtype`, with heads of `width` where a case asks for none.

    Every array is a stream of its own, named after the kind, the case and the array, so a case is
    the same alone as among the others.
    """

    kind: str
    dtype: str
    seed: int = 0
    width: int = WIDTH

    @property
    def precision(self) -> Precision:
        return precision(self.dtype)

    def rounded(self, array: Array) -> Array:
        """The numbers of `dtype` nearest to those of the array, as float64."""
        return round_to(array, self.dtype).astype(np.float64)

    def normal(self, case: str, array: str, *shape: int, size: float = 1.0) -> Array:
        """Normal numbers of this standard deviation that `dtype` has."""
        stream = zlib.crc32(f"{self.kind}/{case}/{array}".encode())
        return self.rounded(size * normal(self.seed, stream, shape))

    def question(
        self,
        case: str,
        *,
        batch: int = 2,
        heads: int = 3,
        kv_heads: int | None = None,
        queries: int = 5,
        keys: int = 7,
        d_k: int | None = None,
        d_v: int = 4,
        size: float = 1.0,
        align: Align = "upper-left",
        **more: Any,
    ) -> AttentionInputs:
        """Normal q and k of standard deviation `size`, unit normal v, all of different sizes.

        Heads are as wide as `width` says, unless `d_k` does; `more` goes to AttentionInputs.
        """
        kv = (batch, heads if kv_heads is None else kv_heads, keys)
        d_k = self.width if d_k is None else d_k
        return AttentionInputs(
            q=self.normal(case, "q", batch, heads, queries, d_k, size=size),
            k=self.normal(case, "k", *kv, d_k, size=size),
            v=self.normal(case, "v", *kv, d_v),
            q_offset=keys - queries if align == "lower-right" else 0,
            **more,
        )

    def case(
        self,
        name: str,
        asks: str,
        inputs: AttentionInputs,
        *,
        mask: str = "",
        expected: Expected | None = None,
    ) -> Case:
        """The case as it is asked; `mask` only says how a mask that `inputs` has is written."""
        return Case(self.kind, name, asks, inputs, self.dtype, mask, expected)


def ways(named: Mapping[str, Sizes]) -> ItemsView[str, Sizes]:
    """Names of cases, and what is special about the question of each."""
    return named.items()


class MakesCases(Protocol):
    """A kind: makes its cases; the first line of its docstring says what they ask."""

    __doc__: str | None

    def __call__(self, make: Making) -> Iterator[Case]: ...


def masked(inputs: AttentionInputs, text: str, stored: Array | None = None) -> AttentionInputs:
    """The question under the mask that `text` writes; `stored` is what file(…) in it holds."""
    batch, heads, queries, keys = inputs.shape
    load = None if stored is None else lambda path: stored
    context = MaskContext(batch, heads, queries, keys, inputs.q_offset or 0, load=load)
    return replace(inputs, mask=parse(text).build(context))


def put(
    inputs: AttentionInputs, name: str, where: tuple[int | slice, ...], value: float
) -> AttentionInputs:
    """The question with one number (or several) of q, k or v replaced."""
    array = getattr(inputs, name).copy()
    array[where] = value
    return replace(inputs, **{name: array})
