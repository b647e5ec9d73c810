"""Shapes of a checkpoint's folder: the layers that its configuration and headers tell of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from attn_cli.core.checkpoint import Checkpoint
from attn_cli.core.geometry import Geometry, LayerGeometry
from attn_cli.core.problems import Problem
from attn_cli.core.results_shapes import ShapesResult
from attn_cli.positions import POSITIONS
from attn_cli.workflows.check.shapes_options import ShapesOptions
from attn_cli.workflows.check.shapes_stack import KV_HEADS, Stack, look_at


def of_checkpoint(folder: str, asked: ShapesOptions) -> ShapesResult:
    """The trace of a checkpoint's attention layers, and what does not fit in its tensors."""
    asked.refuse_idle("a checkpoint", folder)
    from attn_cli.models.checkpoint import read_checkpoint

    return of_layers(read_checkpoint(folder), asked)


def of_layers(found: Checkpoint, asked: ShapesOptions) -> ShapesResult:
    """The same of a checkpoint that was read."""
    layers = tuple(map(_acting, found.layers))
    stack = Stack(layers=layers, dtype=found.dtype, longest=found.max_positions)
    looked = look_at(stack, asked)
    return ShapesResult(
        kind="checkpoint",
        source=found.source,
        says=found.says,
        layers=found.layers,
        groups=looked.groups,
        problems=(*found.problems, *_unsaid(found.problems, looked.problems)),
        checkpoint=found,
        coverage=found.coverage,
        decided=found.decided,
    )


def _unsaid(said: Sequence[Problem], more: Sequence[Problem]) -> Iterator[Problem]:
    """The problems of layers that the configuration's own problems do not say already."""
    heads = any(problem.code == "kv-heads" for problem in said)
    yield from (problem for problem in more if not heads or problem.code != KV_HEADS)


def _acting(layer: LayerGeometry) -> LayerGeometry:
    """The layer without positions that are added before the first one: x brings them along."""
    sizes = layer.geometry
    if sizes is None or sizes.positions is None or _inside(sizes):
        return layer
    return replace(layer, geometry=replace(sizes, positions=None))


def _inside(sizes: Geometry) -> bool:
    name = (sizes.positions or "none").partition(":")[0]
    return name in POSITIONS and POSITIONS[name].acts in ("rotates", "bias")
