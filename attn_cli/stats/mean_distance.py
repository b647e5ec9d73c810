"""Mean distance: how far away, in tokens, a row looks on average."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attn_cli.core.statistics import Array, RowSums, Term


class Distance:
    """|q − k|, linear where all keys of a tile lie to one side of its queries."""

    by_distance = True

    def __call__(self, q_pos: Any, k_pos: Any) -> Any:
        return abs(q_pos - k_pos)

    def linear(self, queries: range, keys: range) -> tuple[int, int, int] | None:
        if keys.stop - 1 <= queries.start:
            return 0, 1, -1
        return (0, -1, 1) if queries.stop - 1 <= keys.start else None


class MeanDistance:
    """Σ w·|q − k| in tokens; NaN in an empty row and where positions have no common origin."""

    name = "mean_distance"
    title = "Σ w·|q − k|"
    unit = "tokens"
    terms: Mapping[str, Term] = {"distance": Distance()}

    def finish(self, rows: RowSums) -> Array:
        far = rows.expected["distance"]
        return np.where(rows.empty | (not rows.aligned), np.nan, far)


STATISTIC = MeanDistance()
