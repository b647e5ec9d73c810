"""T5's relative bias: one learned number a head for every bucket of distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.errors import InputError
from attn_cli.positions.declaration import MAX_DISTANCE, Ingredients, Scheme

Array = NDArray[Any]


def bucket(offset: Array, *, buckets: int, max_distance: int, bidirectional: bool) -> Array:
    """The bucket of every offset k − q: small distances one each, larger ones by their logarithm.

    With `bidirectional` half of the buckets are for keys after the query; without, keys after the
    query share bucket 0. Source: Raffel et al. 2020, "Exploring the Limits of Transfer Learning
    with a Unified Text-to-Text Transformer", section 2.1.
    """
    offset = np.asarray(offset)
    start = np.zeros_like(offset)
    if bidirectional:
        buckets //= 2
        start = np.where(offset > 0, buckets, 0)
        distance = np.abs(offset)
    else:
        distance = np.maximum(-offset, 0)
    exact = buckets // 2
    growth = np.log(np.maximum(distance, 1) / exact) / np.log(max_distance / exact)
    coarse = exact + (growth * (buckets - exact)).astype(offset.dtype)
    return start + np.where(distance < exact, distance, np.minimum(coarse, buckets - 1))


@dataclass(frozen=True, slots=True, eq=False)
class RelativeBias:
    """`table` (buckets, H): the number that a head adds to a scaled score, by k − q's bucket."""

    table: Array
    bidirectional: bool = True
    max_distance: int = MAX_DISTANCE
    name: str = "relative bias"

    def __call__(self, b: Array, h: Array, q_pos: Array, k_pos: Array) -> Array:
        index = bucket(
            k_pos - q_pos,
            buckets=len(self.table),
            max_distance=self.max_distance,
            bidirectional=self.bidirectional,
        )
        bias: Array = self.table[index, h]
        return bias


def _bias(given: Ingredients) -> RelativeBias:
    """Raises InputError where the buckets cannot tell distances apart."""
    assert given.table is not None  # the scheme asks for one
    buckets, sides = len(given.table), 2 if given.bidirectional else 1
    exact = buckets // sides // 2
    if exact < 1:
        raise InputError(
            f"the relative bias has {buckets} buckets: expected at least {2 * sides}, one for "
            "distance 0 and one for the rest" + (", before and after" if sides == 2 else "")
        )
    if given.max_distance <= exact:
        raise InputError(
            f"the greatest distance is {given.max_distance}, and {buckets} buckets tell distances "
            f"below {exact} apart one by one: expected more than {exact}"
        )
    return RelativeBias(given.table, given.bidirectional, given.max_distance)


def _says(given: Ingredients) -> str:
    buckets = 0 if given.table is None else len(given.table)
    both = "bidirectional, as in T5's encoder" if given.bidirectional else "unidirectional"
    return f"{buckets} buckets, {both}, distances from {given.max_distance} on share the last one"


SCHEME = Scheme(
    name="relative",
    description="T5's bias: a learned number a head for every bucket of distances, from the file",
    says=_says,
    bias=_bias,
    table="relative",
    settings=("relative_bidirectional", "max_distance"),
)
