"""Unlucky sums: what right code may lose and runs with permuted sums do not show.

Summands that are alike err alike in every order, so permuted sums of them agree, while a program
that adds one after the other drifts away with their number. And of a few numbers some come out
exact by luck, in the scores of every plain run, though another program's may be an ulp off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.rounding import accumulator, precision

Array = NDArray[Any]
ROWS = 16  # of the product are summed one after the other: what is alike is alike in every row
SUMMANDS = 2**21  # held at once, where a row has fewer


def drift(a: Array, b: Array, dtype: str) -> float:
    """The largest error of a · b, (L, n) · (n, m), where each sum is taken one after the other.

    In the precision in which `dtype` keeps sums, over some rows from the first to the last. What is
    not finite is left out.
    """
    wide = accumulator(dtype)
    count = max(1, min(ROWS, a.shape[0], SUMMANDS // max(1, b.size)))
    some = a[np.linspace(0, a.shape[0] - 1, count).astype(int)] if a.shape[0] else a
    worst = 0.0
    with np.errstate(all="ignore"):
        exact = some.astype(np.longdouble if wide is np.float64 else np.float64)
        for row, right in zip(some.astype(wide), exact, strict=True):
            terms = row[:, None] * b.astype(wide, copy=False)
            error = np.abs(terms.cumsum(0)[-1:] - (right[:, None] * b).sum(0))
            worst = max(worst, float(error[np.isfinite(error)].max(initial=0.0)))
    return worst


def scaled_first(q: Array, k: Array, dtype: str) -> float:
    """How far scores q · kᵀ go where a program scales q and k before it multiplies them.

    Every product is then off by an ulp or so of its own, by itself; they may be far larger than
    their sum. In the precision in which sums are kept.
    """
    with np.errstate(all="ignore"):
        sizes = np.sqrt(np.square(q.astype(np.float64)) @ np.square(k.astype(np.float64)).T)
    largest = float(sizes[np.isfinite(sizes)].max(initial=0.0))
    return largest * float(np.finfo(accumulator(dtype)).eps)


def swayed(weights: Array, values: Array, delta: Array | float) -> tuple[float, float]:
    """How far weights (L, S), and their sums over values (S, d_v), go with scores `delta` off.

    A weight w goes no further than w · (1 − w) · (exp(2 · delta) − 1). The scores err each by
    itself, so in a sum the squares of what they move are added.
    """
    with np.errstate(all="ignore"):
        moved = weights * (1 - weights) * np.expm1(np.minimum(2 * np.asarray(delta), 50.0))
        moved = np.minimum(np.nan_to_num(moved), 1.0)
        finite = np.where(np.isfinite(values), values, 0)
        sums = np.sqrt(np.square(moved) @ np.square(finite))
    return float(moved.max(initial=0.0)), float(sums[np.isfinite(sums)].max(initial=0.0))


def ulp_of_scores(masked: Array, dtype: str, sink: Array | float = 0.0) -> Array:
    """The ulp of the largest finite score of every row, a sink's logit included, (…, L, 1)."""
    sizes = np.abs(np.where(np.isfinite(masked), masked, 0)).astype(np.float64)
    largest = sizes.max(-1, keepdims=True, initial=0.0)
    return precision(dtype).ulp(np.maximum(largest, np.abs(np.nan_to_num(sink))))
