"""T5's relative bias: one learned number a head for every bucket of distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

MAX_DISTANCE = 128


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
