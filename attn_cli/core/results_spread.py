"""Spread: what there is to say of many rows at once: quantiles, histograms, positions, sinks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from attn_cli.core.results import ShownRow, TopKey, json_number

QUANTILES = (0, 1, 5, 25, 50, 75, 95, 99, 100)  # in percent


@dataclass(frozen=True, slots=True)
class Distribution:
    """One number of the rows of one head; rows where it is not defined are left out.

    `rows` of them count. `quantiles` maps a percentage of QUANTILES to the value that so many rows
    are at most, NaN where no row counts. `counts` says how many rows lie between two of `edges`,
    the last edge included; the edges are those of every head.
    """

    rows: int
    quantiles: Mapping[int, float]
    edges: tuple[float, ...]
    counts: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "quantiles": {str(p): json_number(value) for p, value in self.quantiles.items()},
            "histogram": {"edges": list(self.edges), "counts": list(self.counts)},
        }


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive queries of one head, with the means of their rows; NaN where none is defined."""

    first: int
    last: int
    entropy: float
    normalized_entropy: float
    mean_distance: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "first": self.first,
            "last": self.last,
            "entropy": json_number(self.entropy),
            "normalized_entropy": json_number(self.normalized_entropy),
            "mean_distance": json_number(self.mean_distance),
        }


@dataclass(frozen=True, slots=True)
class HeadSpread:
    """One head: how entropy and mean distance are distributed, by position, and its sinks.

    `sinks` are the keys that receive most; `weight` is their share of all the weight that the rows
    of this head give. `distance` is None where positions have no common origin.
    """

    batch: int
    head: int
    entropy: Distribution
    distance: Distribution | None
    by_position: tuple[Stretch, ...]
    sinks: tuple[TopKey, ...]
    layer: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "layer": self.layer,
            "batch": self.batch,
            "head": self.head,
            "entropy": self.entropy.to_dict(),
            "mean_distance": None if self.distance is None else self.distance.to_dict(),
            "by_position": [stretch.to_dict() for stretch in self.by_position],
            "sinks": [
                {"key": sink.key, "token": sink.token, "share": json_number(sink.weight)}
                for sink in self.sinks
            ],
        }


@dataclass(frozen=True, slots=True)
class Spread:
    """The whole of a long run: every chosen head, and the rows that are most unusual in each."""

    heads: tuple[HeadSpread, ...]
    unusual: tuple[ShownRow, ...]

    def of_layer(self, number: int) -> Spread:
        """The same as that of a model's layer."""
        return Spread(
            tuple(replace(head, layer=number) for head in self.heads),
            tuple(replace(one, row=replace(one.row, layer=number)) for one in self.unusual),
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "heads": [head.to_dict() for head in self.heads],
            "unusual": [{**shown.row.to_dict(), "why": shown.why} for shown in self.unusual],
        }


def joined(parts: Iterable[Spread | None]) -> Spread | None:
    """Those of several layers in one; None where there is none."""
    there = [part for part in parts if part is not None]
    if not there:
        return None
    return Spread(
        tuple(head for part in there for head in part.heads),
        tuple(row for part in there for row in part.unusual),
    )
