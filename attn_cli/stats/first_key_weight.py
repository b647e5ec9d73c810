"""Weight on the first key: where attention sinks usually are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attn_cli.core.statistics import Array, RowSums, Term


class First:
    """1 at key 0, and 0 in every tile without it."""

    by_distance = False

    def __call__(self, q_pos: Any, k_pos: Any) -> Any:
        return (k_pos == 0) * 1.0

    def linear(self, queries: range, keys: range) -> tuple[int, int, int] | None:
        return (0, 0, 0) if keys.start > 0 else None


class FirstKeyWeight:
    """The weight of key 0, 0 where it is hidden; NaN in an empty row.

    Much weight here on every row is an attention sink (Xiao et al. 2023, "Efficient Streaming
    Language Models with Attention Sinks").
    """

    name = "first_key_weight"
    title = "weight on key 0"
    unit = ""
    terms: Mapping[str, Term] = {"first": First()}

    def finish(self, rows: RowSums) -> Array:
        return np.where(rows.empty, np.nan, rows.expected["first"])


STATISTIC = FirstKeyWeight()
