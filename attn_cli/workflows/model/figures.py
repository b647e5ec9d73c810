"""Figures: the statistics of a call's rows as numbers a head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.masks import BoolArray
from attn_cli.core.model_calls import CallFacts
from attn_cli.core.model_heads import MEANS, HeadFigures, tower
from attn_cli.core.results_model import CallFigures
from attn_cli.core.statistics import RowSums
from attn_cli.workflows.model.roles import role_of, same_as

Array = NDArray[Any]

ALIGNED = ("mean_distance", "self_weight", "previous_weight", "next_weight")
SATURATED = 0.99  # as attn run has it
# What two heads that look alike agree in.
PRINT = ("entropy", "max_weight", "first_key_weight", "mean_distance", "self_weight", "sum")


def call_figures(
    facts: CallFacts,
    values: Mapping[str, Array],
    sums: RowSums,
    real: BoolArray,
    uniform: Array,
    *,
    mask: int,
    heads: Sequence[int],
) -> CallFigures:
    """The chosen heads of one call.

    `values` are statistics (B, H, L) by name, `real` (B, L) the rows that are no padding,
    `uniform` (b, h, L) how far rows would look that look at all alike.
    """
    rows = Rows(facts, values, sums, real, uniform)
    twins = same_as({name: rows.values[name] for name in PRINT}, rows.choice)
    return CallFigures(
        facts=facts,
        heads=tuple(rows.head(head, twins[head]) for head in heads),
        mask=mask,
        aligned=rows.aligned,
    )


class Rows:
    """The rows of one call: their statistics, and which of them count for what."""

    def __init__(
        self,
        facts: CallFacts,
        values: Mapping[str, Array],
        sums: RowSums,
        real: BoolArray,
        uniform: Array,
    ) -> None:
        self.facts, self.sums = facts, sums
        self.aligned = facts.q_offset is not None
        shape = sums.empty.shape
        self.real = np.broadcast_to(real[:, None], shape)
        visible = values["visible_keys"]
        self.live = self.real & ~sums.empty
        self.choice = self.live & (visible > 1)
        self.filled = self.live & (visible == 0)
        nothing = np.full(shape, np.nan)
        self.values = {"next_weight": nothing, **values}
        if not self.aligned:
            self.values |= dict.fromkeys(ALIGNED, nothing)
        far = np.where(uniform > 0, uniform, np.nan)
        self.values["nearness"] = self.values["mean_distance"] / far
        position = np.arange(shape[-1]) + (facts.q_offset or 0)
        self.neighbour = {"previous_weight": position > 0, "next_weight": position < facts.keys - 1}

    def head(self, head: int, twin: int | None) -> HeadFigures:
        mine = {name: values[:, head] for name, values in self.values.items()}
        live, choice = self.live[:, head], self.choice[:, head]
        means = {name: _mean(mine[name], self._defined(name, head)) for name in MEANS}
        known = {
            "all": choice,
            **{name: choice & rows & self.aligned for name, rows in self.neighbour.items()},
            "self_weight": choice & self.aligned,
            "first_key_weight": choice,
        }
        largest = self.sums.maximum[:, head][live]
        sums = mine["sum"][live]
        return HeadFigures(
            place=self.facts.place,
            stack=tower(self.facts),
            layer=self.facts.layer,
            head=head,
            means=means,
            least_sum=float(sums.min()) if sums.size else float("nan"),
            max_score=float(largest.max()) if largest.size else float("nan"),
            rows=int(self.real[:, head].sum()),
            choice_rows=int(choice.sum()),
            saturated_rows=int((choice & (mine["max_weight"] > SATURATED)).sum()),
            empty_rows=int((self.real & self.sums.empty)[:, head].sum()),
            filled_rows=int(self.filled[:, head].sum()),
            role=role_of(mine, known, means, twin is not None),
            same_as=twin,
        )

    def _defined(self, name: str, head: int) -> BoolArray:
        """The rows over which a figure's mean is taken."""
        if name in ("normalized_entropy", "nearness"):
            return self.choice[:, head]
        rows: BoolArray = self.live[:, head]
        return rows & self.neighbour[name] if name in self.neighbour else rows


def _mean(values: Array, rows: BoolArray) -> float:
    """The mean over the rows, NaN where there are none or one of them is NaN."""
    return float(values[rows].mean(dtype=np.float64)) if rows.any() else float("nan")
