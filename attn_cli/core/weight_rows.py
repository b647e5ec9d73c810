"""Row sums of an engine that shows its weights and no scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.rounding import accumulator
from attn_cli.core.statistics import RowSums, Statistic

Array = NDArray[Any]


def rows_of_weights(
    inputs: AttentionInputs, batch: int, weights: Array, stats: Sequence[Statistic], dtype: str
) -> RowSums:
    """What the rows of one item's weights (H, L, S) leave, as they stand.

    ln w − ln max w is the score relative to the row's maximum, so ln Z = −ln max w. The maximum
    itself and the lse are lost in the softmax. An empty row is whatever the engine makes of it.
    """
    wide = weights.astype(accumulator(dtype), copy=False)
    visible, counted = inputs.visible(batch), inputs.counted(batch)
    seen = np.ones(wide.shape, bool) if visible is None else visible
    number = seen if counted is None else counted
    with np.errstate(divide="ignore", invalid="ignore"):
        log_z = -np.log(wide.max(-1))
        shifted = np.where(wide == 0, 0, wide * (np.log(wide) + log_z[..., None])).sum(-1)
    q_pos, k_pos = np.asarray(inputs.query_positions)[:, None], np.arange(wide.shape[-1])
    terms = {name: g for statistic in stats for name, g in statistic.terms.items()}
    lost = np.full(wide.shape[:-1], np.nan)
    return RowSums(
        maximum=lost,
        lse=lost,
        log_z=log_z,
        weight_sum=wide.sum(-1),
        shifted=shifted,
        expected={name: (wide * g(q_pos, k_pos)).sum(-1) for name, g in terms.items()},
        visible=np.broadcast_to(number.sum(-1), wide.shape[:-1]),
        empty=np.logical_not(seen.any(-1)),
        aligned=inputs.q_offset is not None,
    )
