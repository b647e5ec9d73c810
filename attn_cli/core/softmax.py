"""Softmax over keys, tile by tile: the single home of −inf, the empty row and the rescaling.

A tile of keys leaves, for every row, its maximum m and sums over p = exp(score − m). Two such
partial rows merge into the one that both tiles together would have left; `close` divides by Z.
The dense engine is the one-tile case. (Milakov & Gimelshein 2018, "Online normalizer calculation
for softmax"; FlashAttention, Dao et al. 2022, uses the same merge.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.statistics import RowSums, Term

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class PartialRows:
    """What some of the keys leave of every row; all arrays (..., L).

    `total` = Σ p, `weight_sum` = Σ of p as it multiplies v, `shifted` = Σ p·(score − m),
    `expected[name]` = Σ p·g, relative to the maximum m of these keys. `seen` says whether any of
    these keys takes part; where none does m = −inf and the sums are 0.
    """

    maximum: Array
    total: Array
    weight_sum: Array
    shifted: Array
    expected: Mapping[str, Array]
    visible: Array
    seen: NDArray[np.bool_]


def partial_rows(
    masked: Array,
    *,
    q_pos: Array,
    k_pos: Array,
    terms: Mapping[str, Term],
    takes_part: NDArray[np.bool_] | None,
    counted: NDArray[np.bool_] | None,
) -> tuple[Array, PartialRows]:
    """One tile (..., L, S): its p = exp(masked − m), and what it leaves of every row.

    `masked` is −inf where a key is hidden; `takes_part` says the same (None: all do), `counted`
    what counts as visible. A hidden key has p = 0 even in a row that is NaN.
    """
    seen = np.ones(masked.shape[:-1], bool) if takes_part is None else np.any(takes_part, -1)
    maximum = masked.max(-1)  # (..., L)
    base = np.where(np.isneginf(maximum), 0, maximum)  # a row of −inf must not form −inf − (−inf)
    shift = masked - base[..., None]
    p = np.exp(shift)
    if takes_part is not None:
        p = np.where(takes_part, p, 0)
    shifted = np.where(p == 0, 0, p * shift)  # 0·ln 0 = 0; NaN passes
    visible = np.full(seen.shape, masked.shape[-1]) if counted is None else counted.sum(-1)
    return p, PartialRows(
        maximum=maximum,
        total=p.sum(-1),
        weight_sum=p.sum(-1),
        shifted=shifted.sum(-1),
        expected={name: (p * g(q_pos, k_pos)).sum(-1) for name, g in terms.items()},
        visible=np.broadcast_to(visible, seen.shape),
        seen=seen,
    )


def merge(a: PartialRows, b: PartialRows) -> PartialRows:
    """The partial rows that the keys of `a` and of `b` leave together.

    When the maximum grows by δ, Σ p·(score − m) loses δ·Σ p before it is rescaled by exp(−δ).
    """
    maximum = np.maximum(a.maximum, b.maximum)
    factor_a, shifted_a = _rescaled(a, maximum)
    factor_b, shifted_b = _rescaled(b, maximum)
    return PartialRows(
        maximum=maximum,
        total=a.total * factor_a + b.total * factor_b,
        weight_sum=a.weight_sum * factor_a + b.weight_sum * factor_b,
        shifted=shifted_a + shifted_b,
        expected={
            name: a.expected[name] * factor_a + b.expected[name] * factor_b for name in a.expected
        },
        visible=a.visible + b.visible,
        seen=a.seen | b.seen,
    )


def _rescaled(part: PartialRows, maximum: Array) -> tuple[Array, Array]:
    """exp(−δ) and the shifted sum of `part` relative to a new maximum."""
    nothing = np.isneginf(part.maximum)  # its sums are 0: any factor will do, but not NaN
    delta = np.where(nothing, 0, maximum - np.where(nothing, 0, part.maximum))
    factor = np.exp(-delta)
    # Beyond exp(−δ) = 0 the product δ·Z may be inf: what is rescaled to 0 stays 0.
    return factor, np.where(factor == 0, 0, (part.shifted - delta * part.total) * factor)


def close(rows: PartialRows, *, sinks: Array | None, aligned: bool) -> tuple[RowSums, Array, Array]:
    """The finished rows, and the pair (kept, Z), each (..., L), that makes weights: w = p·kept / Z.

    `sinks` (broadcastable to (..., L)) are extra logits in the denominator; without them kept is 1
    and Z = Σ p. An empty row has kept 0, Z 1 and lse −inf. A row that sees keys and scores −inf at
    every one is NaN without a sink, as by the formula: only a mask makes a row empty.
    """
    top = rows.maximum if sinks is None else np.maximum(rows.maximum, sinks)
    top = np.where(np.isneginf(top), 0, top)
    below = np.where(rows.seen, rows.maximum, -np.inf) - top  # m − max(m, sink)
    kept = np.where(rows.seen, np.exp(below), 0)
    total = rows.total * kept
    if sinks is not None:
        total = total + np.exp(sinks - top)
    log_total = np.log(np.where(rows.seen, total, 1))
    total = np.where(rows.seen, np.where(total == 0, np.nan, total), 1)
    sums = RowSums(
        maximum=np.where(rows.seen, rows.maximum, -np.inf),
        lse=np.where(rows.seen, np.where(top == np.inf, np.inf, top + log_total), -np.inf),
        log_z=np.where(rows.seen, log_total - below, np.nan),
        weight_sum=rows.weight_sum * kept / total,
        shifted=rows.shifted * kept / total,
        expected={name: value * kept / total for name, value in rows.expected.items()},
        visible=rows.visible,
        empty=~rows.seen,
        aligned=aligned,
    )
    return sums, kept, total
