"""What needs a whole row of weights: its best keys, and the cosine between heads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.trace import TopKeys

Array = NDArray[Any]

AT_ONCE = 2**22  # cosines that are computed at once


def top_keys(
    masked: Array, weights: Array, visible: NDArray[np.bool_] | None, count: int
) -> TopKeys:
    """The `count` best-scoring keys of every row (..., L, S): keys and weights (..., L, count).

    Best first, the earlier key first among equals, NaN scores last. Hidden keys never appear; where
    fewer keys are visible the rest is −1 and NaN. `count` is at most S.
    """
    least = np.finfo(masked.dtype).min
    left = np.where(np.isnan(masked), least, np.maximum(masked, least))
    if visible is not None:
        left = np.where(visible, left, -np.inf)
    keys, best = [], []
    for _ in range(min(count, masked.shape[-1])):
        key = left.argmax(-1)[..., None]  # the first of equals
        there = ~np.isneginf(np.take_along_axis(left, key, -1))
        keys.append(np.where(there, key, -1))
        best.append(np.where(there, np.take_along_axis(weights, key, -1), np.nan))
        np.put_along_axis(left, key, -np.inf, -1)
    return TopKeys(np.concatenate(keys, -1), np.concatenate(best, -1).astype(np.float64))


def head_cosine(weights: Array, empty: NDArray[np.bool_]) -> Array:
    """The mean over rows of the cosine between the weights (H, L, S) of two heads: (H, H).

    Rows (H, L) that are empty in either head, or where a sink takes everything, are left out; NaN
    where none is left.
    """
    heads, length, _ = weights.shape
    total, count = np.zeros((heads, heads)), np.zeros((heads, heads), np.int64)
    step = max(1, AT_ONCE // heads**2)
    for start in range(0, length, step):
        some = slice(start, start + step)
        cosine, both = _cosines(weights[:, some], empty[:, some])
        total += cosine.sum(0)
        count += both.sum(0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _cosines(weights: Array, empty: NDArray[np.bool_]) -> tuple[Array, NDArray[np.bool_]]:
    """The cosines of each row, (L, H, H), 0 where they do not count, and where they do."""
    rows = weights.swapaxes(0, 1).astype(np.float64)  # (L, H, S)
    largest = rows.max(-1, keepdims=True)
    rows /= np.where(largest > 0, largest, 1)  # the squares of tiny weights would vanish
    with np.errstate(invalid="ignore"):  # rows that are NaN
        gram = rows @ rows.mT  # (L, H, H)
        norm = np.sqrt(np.einsum("lhh->lh", gram))
        nothing = empty.T | (norm == 0)
        both = ~(nothing[:, :, None] | nothing[:, None, :])
        size = np.where(both, norm[:, :, None] * norm[:, None, :], 1)
        return np.where(both, gram / size, 0), both
