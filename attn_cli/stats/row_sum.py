"""Row sum: the sum of a row's weights as they multiply the values."""

from __future__ import annotations

from collections.abc import Mapping

from attn_cli.core.statistics import Array, RowSums, Term


class RowSum:
    """Σ w over the keys: 1 up to rounding, below 1 with a sink, 0 in an empty row."""

    name = "sum"
    title = "sum of the weights"
    unit = ""
    terms: Mapping[str, Term] = {}

    def finish(self, rows: RowSums) -> Array:
        return rows.weight_sum


STATISTIC = RowSum()
