"""Normalised entropy: entropy as a share of the largest that the visible keys allow."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attn_cli.core.statistics import Array, RowSums, Term
from attn_cli.stats.entropy import entropy


class NormalizedEntropy:
    """H / ln(visible keys), from 0 to 1; NaN where fewer than two keys are visible."""

    name = "normalized_entropy"
    title = "entropy ÷ ln(visible keys)"
    unit = ""
    terms: Mapping[str, Term] = {}

    def finish(self, rows: RowSums) -> Array:
        several = rows.visible > 1
        largest = np.log(np.where(several, rows.visible, 2))
        return np.where(several, entropy(rows) / largest, np.nan)


STATISTIC = NormalizedEntropy()
