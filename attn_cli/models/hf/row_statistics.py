"""RowStatistics: an observer that keeps the row sums of every call, and no matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attn_cli.core.model_calls import CallPlace
from attn_cli.core.statistics import Array, RowSums, Statistic
from attn_cli.models.hf.call import AttentionCall
from attn_cli.models.hf.row_sums import Kept, row_sums


class RowStatistics:
    """The statistics of every row of every call. `rows` has what a statistic is made of."""

    def __init__(self, stats: Sequence[Statistic]) -> None:
        self.stats = tuple(stats)
        self.rows: dict[CallPlace, RowSums] = {}
        self._kept = Kept.of(stats)

    def see(self, call: AttentionCall) -> None:
        """Adds the row sums of one call."""
        self.rows[call.facts.place] = row_sums(call, self.stats, self._kept)

    def values(self, place: CallPlace) -> dict[str, Array]:
        """Every statistic of one call by name, (B, H, L)."""
        rows = self.rows[place]
        with np.errstate(invalid="ignore", divide="ignore"):
            return {statistic.name: statistic.finish(rows) for statistic in self.stats}
