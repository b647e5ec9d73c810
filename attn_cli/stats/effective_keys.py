"""Effective keys: the number of equally weighted keys that would have the same entropy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attn_cli.core.statistics import Array, RowSums, Term
from attn_cli.stats.entropy import entropy


class EffectiveKeys:
    """exp(H): 1 where one key holds all the weight; NaN in an empty row."""

    name = "effective_keys"
    title = "exp(entropy)"
    unit = "keys"
    terms: Mapping[str, Term] = {}

    def finish(self, rows: RowSums) -> Array:
        return np.exp(entropy(rows))


STATISTIC = EffectiveKeys()
