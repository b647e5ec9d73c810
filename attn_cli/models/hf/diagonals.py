"""Weights on a diagonal: on the query's own key, and on the one before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attn_cli.core.statistics import Array, RowSums, Term


class Diagonal:
    """1 at the key `back` positions before the query, and 0 in every tile without one."""

    by_distance = True

    def __init__(self, back: int) -> None:
        self.back = back

    def __call__(self, q_pos: Any, k_pos: Any) -> Any:
        return (q_pos - k_pos == self.back) * 1.0

    def linear(self, queries: range, keys: range) -> tuple[int, int, int] | None:
        first, last = queries.start - self.back, queries.stop - self.back
        return (0, 0, 0) if keys.stop <= first or last <= keys.start else None


class DiagonalWeight:
    """The weight of the key `back` positions before the query.

    0 where it is hidden or before the first key; NaN in an empty row and where positions have no
    common origin.
    """

    unit = ""

    def __init__(self, name: str, title: str, back: int) -> None:
        self.name, self.title = name, title
        self.terms: Mapping[str, Term] = {name: Diagonal(back)}

    def finish(self, rows: RowSums) -> Array:
        there = rows.expected[self.name]
        return np.where(rows.empty | (not rows.aligned), np.nan, there)


SELF_WEIGHT = DiagonalWeight("self_weight", "weight on the own key", 0)
NEXT_WEIGHT = DiagonalWeight("next_weight", "weight on the key after", -1)
PREVIOUS_WEIGHT = DiagonalWeight("previous_weight", "weight on the key before", 1)
