"""row_sums: what one pass over the keys leaves of every row of a call, block by block of queries.

The dense way, on the model's device: a block of scores at a time, so that no n×n is held. What the
rest needs is one function, `row_sums`; a tiled kernel can stand in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attn_cli.core.statistics import RowSums, Statistic, Term
from attn_cli.models.hf.blocks import rows_of
from attn_cli.models.hf.call import AttentionCall, wide
from attn_cli.models.hf.expectations import Expectations
from attn_cli.models.hf.masked_block import LOW, masked_block
from attn_cli.models.hf.parts import parts_of
from attn_cli.models.hf.scratch import Scratch
from attn_cli.torch_arrays import to_numpy

PIECE = 6 << 18  # elements of a block: rows enough for the product, few enough for the cache
ROWS = 64  # of a head, at least: a product of fewer is slow

_NO_ROW = {"maximum": -torch.inf, "lse": -torch.inf, "log_z": torch.nan}  # every other sum is 0


def row_sums(call: AttentionCall, stats: Sequence[Statistic], kept: Kept | None = None) -> RowSums:
    """The sums of every row that these statistics need; arrays (B, H, L).

    Rows and conventions are those of `core.statistics.RowSums`; sums run in float32, or float64
    where the model does. `kept` is what calls may share.
    """
    kept = kept or Kept.of(stats)
    sums = _room(call, kept.expectations.terms)
    for part, items, heads in parts_of(call, at_once=PIECE, rows=ROWS):
        for rows in rows_of(part, at_once=PIECE):
            for name, value in _block(part, rows, kept).items():
                sums[name][items, heads, rows] = value
    return _closed(call, sums)


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What one call leaves for the next: memory, and the values of terms."""

    expectations: Expectations
    scratch: Scratch

    @classmethod
    def of(cls, stats: Sequence[Statistic]) -> Kept:
        """Nothing yet."""
        terms = {name: g for statistic in stats for name, g in statistic.terms.items()}
        return cls(Expectations(terms), Scratch())


def _room(call: AttentionCall, terms: Mapping[str, Term]) -> dict[str, Tensor]:
    """Sums of no keys, (B, H, L)."""
    facts = call.facts
    shape = (facts.batch, facts.heads, facts.queries)
    seen = call.q if call.q is not None else call.masked
    assert seen is not None
    numbers = wide(seen.new_empty(()))
    names = ("maximum", "total", "shifted", *terms)
    made = {name: numbers.new_empty(shape) for name in names}
    made["visible"] = torch.empty(shape, dtype=torch.int64, device=numbers.device)
    made["empty"] = torch.empty(shape, dtype=torch.bool, device=numbers.device)
    return made


def _block(call: AttentionCall, rows: slice, kept: Kept) -> dict[str, Tensor | bool]:
    """Σ p, Σ p·(score − m) and Σ p·g of one block of rows, p = exp(score − m)."""
    block = masked_block(call, rows, kept.scratch)
    scores = block.scores
    maximum = scores.amax(-1, keepdim=True)
    shift = scores.sub_(maximum)
    if block.infinite:
        shift.clamp_(min=LOW)  # 0·(−inf) would be NaN; an empty row is NaN all the same
    p = kept.scratch.room("powers", scores, tuple(scores.shape))
    (torch.exp if block.unit == 1 else torch.exp2)(shift, out=p)
    return {
        **kept.expectations.of(p, call.positions(rows)),
        "shifted": shift.mul_(p).sum(-1).div_(block.unit),
        "maximum": maximum[..., 0].div_(block.unit),
        "visible": block.visible,
        "empty": False if block.empty is None else block.empty,
    }


def _closed(call: AttentionCall, sums: dict[str, Tensor]) -> RowSums:
    """The sums of all rows divided by Z, and what an empty row has instead."""
    maximum, total = sums.pop("maximum"), sums.pop("total")
    shifted, visible, empty = sums.pop("shifted"), sums.pop("visible"), sums.pop("empty")
    log_z = total.log()
    if (sink := call.sink(slice(0, call.facts.queries))) is not None:
        log_z = torch.logaddexp(log_z, sink[..., 0] - maximum)
    kept = torch.exp(-log_z)  # makes weights of p
    made = {"maximum": maximum, "lse": maximum + log_z, "log_z": log_z}
    made |= {"weight_sum": total * kept, "shifted": shifted * kept}
    filled = {
        name: value.masked_fill(empty, _NO_ROW.get(name, 0.0)) for name, value in made.items()
    }
    return RowSums(
        **{name: to_numpy(value) for name, value in filled.items()},
        expected={
            name: to_numpy((value * kept).masked_fill(empty, 0.0)) for name, value in sums.items()
        },
        visible=to_numpy(visible),
        empty=to_numpy(empty),
        aligned=call.facts.q_offset is not None,
    )
