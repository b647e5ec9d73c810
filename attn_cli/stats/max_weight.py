"""Maximum weight: the largest weight of a row."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attn_cli.core.statistics import Array, RowSums, Term


class MaxWeight:
    """1 / Z for scores relative to the row's maximum, at most 1; NaN in an empty row."""

    name = "max_weight"
    title = "largest weight"
    unit = ""
    terms: Mapping[str, Term] = {}

    def finish(self, rows: RowSums) -> Array:
        return np.exp(-rows.log_z)


STATISTIC = MaxWeight()
