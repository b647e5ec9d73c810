"""Entropy: how spread out a row's weights are, in nats."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attn_cli.core.statistics import Array, RowSums, Term


def entropy(rows: RowSums) -> Array:
    """−Σ w ln w in nats, with 0·ln 0 = 0; NaN in an empty row.

    With ln w = score − m − ln Z this is Σw · ln Z − Σ w·(score − m), m the row's maximum. The
    unshifted form lse − E[score] loses digits where scores are large. With a sink the sum runs
    over the keys alone, so the sink's own share is left out.
    """
    with np.errstate(invalid="ignore"):  # a sink may take all the weight: then ln Z is inf
        nats = np.where(rows.weight_sum == 0, 0, rows.weight_sum * rows.log_z) - rows.shifted
    return np.where(rows.empty, np.nan, np.maximum(nats, 0.0))


class Entropy:
    """−Σ w ln w in nats: 0 where one key holds all the weight, ln n where n keys share it."""

    name = "entropy"
    title = "entropy of the weights"
    unit = "nat"
    terms: Mapping[str, Term] = {}

    def finish(self, rows: RowSums) -> Array:
        return entropy(rows)


STATISTIC = Entropy()
