"""ShapesResult: what `attn check shapes` knows of an attention layer, a file or a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add
from typing import Any, Literal

from attn_cli.core.checkpoint import Checkpoint
from attn_cli.core.cost import Cost, Wall
from attn_cli.core.geometry import Geometry, LayerGeometry
from attn_cli.core.problems import Problem
from attn_cli.core.trace import StageShape

Kind = Literal["sizes", "file", "model", "checkpoint"]


@dataclass(frozen=True, slots=True)
class ShapeRow:
    """One stage: its shape, what it costs, and that at twice the length."""

    step: StageShape
    cost: Cost
    doubled: Cost

    def to_dict(self, layer: int) -> dict[str, Any]:
        return {
            **self.step.to_dict(),
            "layer": layer,
            "bytes": self.cost.bytes,
            "flops": self.cost.flops,
            "masked_bytes": self.cost.masked_bytes,
            "masked_flops": self.cost.masked_flops,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What the shapes were worked out for; `mask` is the expression, None where there is none.

    `mask_read` is False where a mask's numbers would have to be read, and are not.
    """

    batch: int
    queries: int
    keys: int
    dtype: str
    mask: str | None = None
    align: str | None = None
    mask_read: bool = True
    cached: int = 0  # of the keys, as many come out of a cache

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerShapes:
    """Layers that are alike, by their place in the result's `layers`, and the trace of one.

    `pairs` counts query-key pairs of all items and heads, `visible` those that the mask lets
    through, None where that is not known. Without `rows` nothing could be worked out, or the layer
    is no softmax attention. `cache` is what one token leaves in a cache of keys and values, in
    bytes, `cached` how many tokens are kept of each sequence.
    """

    layers: tuple[int, ...]
    sizes: Sizes
    geometry: Geometry | None = None
    rows: tuple[ShapeRow, ...] = ()
    pairs: int = 0
    visible: int | None = None
    parameters: int = 0
    cache: int = 0
    cached: int = 0
    wall: Wall | None = None

    @property
    def cost(self) -> Cost:
        """All stages of one of the layers together."""
        return _sum(row.cost for row in self.rows)

    @property
    def doubled(self) -> Cost:
        """The same at twice the length."""
        return _sum(row.doubled for row in self.rows)

    @property
    def growth(self) -> dict[str, Any]:
        """By which factor everything grows at twice the length; of cached keys, theirs alone."""
        stages = {row.step.stage: _factors(row.cost, row.doubled) for row in self.rows}
        return {**_factors(self.cost, self.doubled), "stages": stages}

    def to_dict(self) -> dict[str, Any]:
        return {
            "layers": list(self.layers),
            "sizes": self.sizes.to_dict(),
            "geometry": None if self.geometry is None else geometry_dict(self.geometry),
            "totals": totals_dict([self]) if self.rows else None,
            "growth": self.growth if self.rows else None,
            "wall": None if self.wall is None else asdict(self.wall),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapesResult:
    """Everything that `attn check shapes` found out, without a number of a tensor.

    `says` are words on what was read. `layers` are those of a checkpoint or a model, or one.
    `coverage` says what was checked and what only numbers could tell.
    """

    kind: Kind
    source: str
    says: tuple[str, ...]
    layers: tuple[LayerGeometry, ...]
    groups: tuple[LayerShapes, ...]
    problems: tuple[Problem, ...] = ()
    checkpoint: Checkpoint | None = None
    coverage: str = ""
    decided: bool = True  # False: no tensors, or those of a family that is not known

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def traced(self) -> tuple[LayerShapes, ...]:
        """The groups of layers whose shapes could be worked out."""
        return tuple(group for group in self.groups if group.rows)

    def to_dict(self) -> dict[str, Any]:
        """The object of `--json`, schema attn.check.shapes/1."""
        return {
            "schema": "attn.check.shapes/1",
            "kind": self.kind,
            "source": self.source,
            "says": list(self.says),
            "fits": self.decided and not self.errors,
            "decided": self.decided,
            "shapes": list(self._shapes()),
            "problems": [problem.to_dict() for problem in self.problems],
            "totals": totals_dict(self.traced) if self.traced else None,
            "groups": [group.to_dict() for group in self.groups],
            "layers": [_layer(place, layer) for place, layer in enumerate(self.layers)],
            "checkpoint": None if self.checkpoint is None else _checkpoint(self.checkpoint),
            "coverage": self.coverage,
        }

    def _shapes(self) -> Iterator[dict[str, Any]]:
        """Every stage of every layer, in order of the layers."""
        found = {place: group for group in self.groups for place in group.layers}
        for place in sorted(found):
            for row in found[place].rows:
                yield row.to_dict(place)


def totals_dict(groups: Sequence[LayerShapes]) -> dict[str, Any]:
    """The sums over all layers of some groups; a wall and growth belong to each group."""
    now = _sum(cost for group in groups for cost in [group.cost] * len(group.layers))
    then = _sum(cost for group in groups for cost in [group.doubled] * len(group.layers))
    seen = [group.visible for group in groups]
    visible = None if None in seen else sum(g.visible * len(g.layers) for g in groups if g.visible)
    return {
        "bytes": now.bytes,
        "flops": now.flops,
        "masked_bytes": now.masked_bytes,
        "masked_flops": now.masked_flops,
        "pairs": sum(group.pairs * len(group.layers) for group in groups),
        "visible_pairs": visible,
        "parameters": sum(group.parameters * len(group.layers) for group in groups),
        "kv_cache_bytes_per_token": sum(group.cache * len(group.layers) for group in groups),
        "kv_cache_bytes": sum(
            group.cache * group.cached * group.sizes.batch * len(group.layers) for group in groups
        ),
        "growth": _factors(now, then),
    }


def _sum(costs: Iterable[Cost]) -> Cost:
    return reduce(add, costs, Cost(0, 0, 0, 0))


def _factors(now: Cost, then: Cost) -> dict[str, float | None]:
    """How many times as much it is at twice the length; None where there is none, or unknown."""
    names = ("bytes", "flops", "masked_bytes", "masked_flops")
    both = ((name, getattr(now, name), getattr(then, name)) for name in names)
    return {
        name: after / before if before and after is not None else None
        for name, before, after in both
    }


def geometry_dict(layer: Geometry) -> dict[str, Any]:
    """The sizes of a layer as plain values."""
    return {**asdict(layer), "biases": sorted(layer.biases)}


def _layer(place: int, layer: LayerGeometry) -> dict[str, Any]:
    return {
        "layer": place,
        "path": layer.path,
        "stack": layer.stack,
        "index": layer.index,
        "kind": layer.kind,
        "says": layer.says,
    }


def _checkpoint(found: Checkpoint) -> dict[str, Any]:
    names = (
        "model_type", "architecture", "known", "dtype", "max_positions", "tensors", "parameters",
        "bytes", "files", "coverage",
    )  # fmt: skip
    return {name: getattr(found, name) for name in names}
