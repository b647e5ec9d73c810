"""What a block of queries has gathered from its tiles, and its end: division by Z, sinks, −inf."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

INF = float("inf")
NAN = float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """The sums of a block of queries over all its tiles, relative to each row's maximum m.

    With p = exp(score − m): `total` = Σ p, `weight_sum` = Σ p as it multiplies v, `shifted` =
    Σ p·(score − m), `expected[name]` = Σ p·g, all (rows,), and `context` = Σ p·v (rows, d_v).
    `visible` counts keys; `seen` says whether any takes part: where none does, m is −inf.
    `ordinary`: every row sees keys and all numbers are finite.
    """

    maximum: Tensor
    total: Tensor
    weight_sum: Tensor
    shifted: Tensor
    expected: Mapping[str, Tensor]
    visible: Tensor
    seen: Tensor
    context: Tensor
    ordinary: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TiledRows:
    """One number a row, tensors (B, H, L), as in `core.statistics.RowSums`.

    `maximum`, `lse`, `log_z`, `weight_sum`, `shifted` and `expected[name]` in float64 for float64
    and else in float32, `visible` int64, `empty` bool. An empty row has maximum and lse −inf, log_z
    NaN and sums of 0.
    """

    maximum: Tensor
    lse: Tensor
    log_z: Tensor
    weight_sum: Tensor
    shifted: Tensor
    expected: Mapping[str, Tensor]
    visible: Tensor
    empty: Tensor

    NUMBERS = ("maximum", "lse", "log_z", "weight_sum", "shifted")


def empty_rows(
    shape: tuple[int, ...], names: tuple[str, ...], dtype: torch.dtype, device: torch.device
) -> TiledRows:
    """Rows to be filled block by block."""

    def numbers() -> Tensor:
        return torch.empty(shape, dtype=dtype, device=device)

    return TiledRows(
        maximum=numbers(),
        lse=numbers(),
        log_z=numbers(),
        weight_sum=numbers(),
        shifted=numbers(),
        expected={name: numbers() for name in names},
        visible=torch.empty(shape, dtype=torch.int64, device=device),
        empty=torch.empty(shape, dtype=torch.bool, device=device),
    )


def close(gathered: Gathered, sink: Tensor | None) -> tuple[TiledRows, Tensor]:
    """The finished rows of a block, and the factor (rows,) that turns exp(score − m) into weights.

    `sink` () is an extra logit in the denominator. A row that sees keys and scores −inf at every
    one is NaN without a sink, as by the formula: only a mask makes a row empty.
    """
    if gathered.ordinary and sink is None:
        return _ordinary(gathered)
    seen, maximum = gathered.seen, gathered.maximum
    top = maximum if sink is None else torch.maximum(maximum, sink)
    top = torch.where(top.isneginf(), 0, top)
    below = torch.where(seen, maximum, -INF) - top  # m − max(m, sink)
    kept = torch.where(seen, below.exp(), 0)
    total = gathered.total * kept
    if sink is not None:
        total = total + (sink - top).exp()
    log_total = torch.where(seen, total, 1).log()
    total = torch.where(seen, torch.where(total == 0, NAN, total), 1)
    factor = kept / total
    rows = TiledRows(
        maximum=torch.where(seen, maximum, -INF),
        lse=torch.where(seen, torch.where(top == INF, INF, top + log_total), -INF),
        log_z=torch.where(seen, log_total - below, NAN),
        weight_sum=gathered.weight_sum * factor,
        shifted=gathered.shifted * factor,
        expected={name: value * factor for name, value in gathered.expected.items()},
        visible=gathered.visible,
        empty=~seen,
    )
    return rows, factor


def _ordinary(gathered: Gathered) -> tuple[TiledRows, Tensor]:
    """`close` without its exceptions, in a third of the steps."""
    factor, log_total = gathered.total.reciprocal(), gathered.total.log()
    rows = TiledRows(
        maximum=gathered.maximum,
        lse=gathered.maximum + log_total,
        log_z=log_total,
        weight_sum=gathered.weight_sum * factor,
        shifted=gathered.shifted * factor,
        expected={name: value * factor for name, value in gathered.expected.items()},
        visible=gathered.visible,
        empty=~gathered.seen,
    )
    return rows, factor
