"""Distances: how far a row would look that looks at all of its visible keys alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.masks import BoolArray

Array = NDArray[Any]

AT_ONCE = 1 << 22  # pairs


def uniform_distance(visible: BoolArray | None, queries: int, keys: int, offset: int) -> Array:
    """(b, h, L): the mean |q − k| over each row's visible keys; NaN where there are none.

    `visible` (b, h, L, S); None: all keys. Query 0 stands at `offset`.
    """
    seen = np.ones((1, 1, 1, keys), bool) if visible is None else visible
    batch, heads = seen.shape[:2]
    result = np.full((batch, heads, queries), np.nan)
    step = max(1, AT_ONCE // (batch * heads * keys))
    positions = np.arange(keys)
    for start in range(0, queries, step):
        rows = np.arange(start, min(start + step, queries))
        part = seen if seen.shape[2] == 1 else seen[:, :, rows]
        part = np.broadcast_to(part, (batch, heads, rows.size, keys))
        far = np.abs(rows[:, None] + offset - positions)  # (l, S)
        count = part.sum(-1)
        total = np.where(part, far, 0).sum(-1)
        result[:, :, rows] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return result
