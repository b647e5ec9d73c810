"""The trace of one layer from its geometry: what `attn run` would make, without an array of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from attn_cli.core.blank import blank
from attn_cli.core.cost import (
    EACH,
    ITEMSIZE,
    Inner,
    Work,
    cached_numbers,
    cached_tokens,
    cost_of,
    parameters,
    wall,
    works,
)
from attn_cli.core.geometry import Geometry, Latent
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.layer import Origin, Projections
from attn_cli.core.masks import BoolArray, IntArray, TileKind
from attn_cli.core.results_shapes import LayerShapes, ShapeRow, Sizes
from attn_cli.core.steps import steps
from attn_cli.core.trace import StageShape
from attn_cli.masks.expression import MaskExpression
from attn_cli.positions import POSITIONS
from attn_cli.positions.declaration import Ingredients
from attn_cli.workflows.check.shapes_pairs import Grid, Visible, visible_pairs, window_of

ROTATED_PART = "its last {} features turned by their positions"
GATE = "x · W_q, its other half"
BUCKETS = 32  # of T5's relative bias; how many there are changes no shape


class SomeMask:
    """Stands for a mask whose pairs are counted elsewhere: a trace only says that there is one."""

    def __call__(self, b: IntArray, h: IntArray, q_pos: IntArray, k_pos: IntArray) -> BoolArray:
        return np.broadcast_to(np.True_, np.broadcast_shapes(*map(np.shape, (b, h, q_pos, k_pos))))

    def tile(self, b: int, h: int, queries: range, keys: range) -> TileKind:
        return TileKind.MIXED


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How a layer is looked at: `cached` keys come out of a cache, `encoded` x gets positions."""

    grid: Grid
    dtype: str
    expression: MaskExpression | None
    cached: int = 0
    encoded: bool = False

    @property
    def doubled(self) -> Grid:
        """Twice as long: both sequences, or the keys alone where they come from a cache."""
        queries = self.grid.queries if self.cached else 2 * self.grid.queries
        return replace(self.grid, queries=queries, keys=2 * self.grid.keys)


@dataclass(frozen=True, slots=True)
class Counted:
    """The pairs that are visible now and at twice the length, None where that is not known.

    `read` is False where the numbers that hide keys are not read.
    """

    now: Visible | None
    then: Visible | None = None
    read: bool = True


def layer_shapes(layer: Geometry, shown: Shown, layers: Sequence[int]) -> LayerShapes:
    """The trace of a layer that fits together, with its costs now and at twice the length."""
    inputs = blank_inputs(layer, shown)
    found = works(steps(inputs, shown.dtype), inner_of(inputs), layer.biases)
    done = [_cached(work, layer, shown) for work in _in_full(found, layer, shown)]
    return measured(done, layer, shown, layers)


def measured(
    done: Sequence[Work],
    layer: Geometry,
    shown: Shown,
    layers: Sequence[int],
    counted: Counted | None = None,
) -> LayerShapes:
    """The costs of a trace; `counted` are the pairs where the mask's expression does not tell."""
    grid, size = shown.grid, ITEMSIZE[shown.dtype]
    if counted is None:
        now = visible_pairs(shown.expression, grid)
        counted = Counted(now, visible_pairs(shown.expression, shown.doubled))
    rows = tuple(_rows(done, shown, counted))
    windowed = replace(layer, window=window_of(shown.expression) or layer.window)
    return LayerShapes(
        layers=tuple(layers),
        sizes=Sizes(
            batch=grid.batch,
            queries=grid.queries,
            keys=grid.keys,
            dtype=shown.dtype,
            mask=None if shown.expression is None else str(shown.expression),
            align=grid.align,
            mask_read=counted.read,
            cached=shown.cached,
        ),
        geometry=layer,
        rows=rows,
        pairs=grid.pairs,
        visible=None if counted.now is None else counted.now.pairs,
        parameters=parameters(layer),
        cache=cached_numbers(layer) * size,
        cached=cached_tokens(windowed, grid.keys),
        wall=wall(done, size),
    )


def _rows(done: Sequence[Work], shown: Shown, counted: Counted) -> Iterator[ShapeRow]:
    """Every stage with its costs; the masking step told by name and number, as a run tells it."""
    grid, size = shown.grid, ITEMSIZE[shown.dtype]
    twice = {"query": shown.doubled.queries, "key": shown.doubled.keys}
    now, both = counted.now, (counted.now, counted.then)
    pairs, later = (None if seen is None else seen.pairs for seen in both)
    mask = "the mask" if shown.expression is None else str(shown.expression)
    for work in done:
        step = work.step
        if step.stage == "masked" and now is not None:
            step = replace(step, formula=f"{mask} {now.hides(grid)}")
        yield ShapeRow(step, cost_of(work, size, pairs), cost_of(work.at(twice), size, later))


def blank_inputs(layer: Geometry, shown: Shown) -> AttentionInputs:
    """Attention inputs of the layer's sizes; InputError where they do not fit together."""
    grid = shown.grid
    batch, queries, keys = grid.batch, grid.queries, grid.keys
    x = None if layer.d_model is None else blank((batch, queries, layer.d_model))
    scheme = POSITIONS[(layer.positions or "none").partition(":")[0]]
    table = blank((BUCKETS, layer.heads)) if scheme.table == "relative" else None
    given = Ingredients(heads=layer.heads, table=table)
    return AttentionInputs(
        blank((batch, layer.heads, queries, layer.d_k)),
        blank((batch, layer.kv_heads, keys, layer.d_k)),
        blank((batch, layer.kv_heads, keys, layer.d_v)),
        mask=None if shown.expression is None else SomeMask(),
        scale=layer.scale,
        softcap=layer.softcap,
        sinks=blank((layer.heads,)) if layer.sinks else None,
        x=x,
        rotation=None if scheme.rotate is None else scheme.rotate(given),
        position_bias=None if scheme.bias is None else scheme.bias(given),
        origin=_origin(layer, shown),
    )


def _origin(layer: Geometry, shown: Shown) -> Origin | None:
    if layer.d_model is None or not (layer.projected or shown.encoded):
        return None
    grid, width = shown.grid, layer.d_model
    attended = layer.d_context or width
    other = (layer.cross or grid.queries != grid.keys) and not shown.cached
    encoding = blank((grid.queries, width)) if shown.encoded else None
    return Origin(
        x=blank((grid.batch, grid.queries, width)),
        heads=layer.heads,
        kv_heads=layer.kv_heads,
        context=blank((grid.batch, grid.keys, attended)) if other else None,
        encoding=encoding,
        context_encoding=blank((grid.keys, attended)) if shown.encoded and other else None,
        projections=_projections(layer, width, attended) if layer.projected else None,
    )


def _projections(layer: Geometry, width: int, attended: int) -> Projections:
    q, k, v = layer.heads * layer.d_k, layer.kv_heads * layer.d_k, layer.kv_heads * layer.d_v
    out = layer.d_out
    sizes = {"q": q, "k": k, "v": v, "o": out or 0}
    biases = {f"b_{name}": blank((sizes[name],)) for name in layer.biases if sizes[name]}
    w_o = None if out is None else blank((layer.heads * layer.d_v, out))
    return Projections(blank((width, q)), blank((attended, k)), blank((attended, v)), w_o, **biases)


def inner_of(inputs: AttentionInputs) -> Inner:
    """The widths that the projections sum over."""
    weights = inputs.origin.projections if inputs.origin else None
    if weights is None:
        return Inner()
    return Inner(
        q=len(weights.w_q),
        k=len(weights.w_k),
        v=len(weights.w_v),
        output=0 if weights.w_o is None else len(weights.w_o),
    )


def _in_full(done: Sequence[Work], layer: Geometry, shown: Shown) -> Iterator[Work]:
    """The stages with those of latent attention and of a gate, where there are any."""
    for work in done:
        if layer.latent is not None:
            yield from _latent(work, layer, layer.latent, shown.grid)
        elif layer.gated:
            yield from _gated(work, layer)
        else:
            yield work


def _gated(work: Work, layer: Geometry) -> Iterator[Work]:
    """One stage of attention whose context is gated, with what the gate adds behind it."""
    step = work.step
    if step.stage == "output":
        yield _reworded(work, step.formula.replace("merged", "gated"))
        return
    yield work
    if step.stage == "q":
        batch, _, queries, _ = step.shape
        shape = (batch, queries, layer.heads * layer.d_v)
        gate = StageShape("gate", ("batch", "query", "head*d_v"), shape, step.dtype, GATE)
        yield replace(work, step=gate)
    elif step.stage == "merged":
        made = replace(step, stage="gated", formula="merged × sigmoid(gate)")
        yield Work(step=made, each=EACH["gated"])


def _latent(work: Work, layer: Geometry, latent: Latent, grid: Grid) -> Iterator[Work]:
    """One stage of multi-head latent attention, after the latent vectors that it is made of."""
    batch, queries, keys = grid.batch, grid.queries, grid.keys
    width, stage = layer.d_model or 0, work.step.stage
    part = Fraction(latent.d_rope, layer.d_k)
    turned = {"q_rotated": part, "k_rotated": part / layer.heads}
    if stage == "q" and latent.q_rank is not None:
        narrow = ("batch", "query", "q_rank"), (batch, queries, latent.q_rank)
        yield _made(work, "q_latent", *narrow, "x · W_q_a", width)
        yield _reworded(replace(work, inner=latent.q_rank), "q_latent · W_q_b split into heads")
    elif stage == "k":
        narrow = ("batch", "key", "kv_rank"), (batch, keys, latent.kv_rank)
        yield _made(work, "kv_latent", *narrow, "x · W_kv_a", width)
        shared = ("batch", "key", "d_rope"), (batch, keys, latent.d_rope)
        yield _made(work, "k_rope", *shared, "x · W_kv_a, its last columns", width)
        own = replace(work, inner=latent.kv_rank, share=1 - part)
        yield _reworded(own, "kv_latent · W_kv_b split into heads, each beside k_rope")
    elif stage == "v":
        yield _reworded(replace(work, inner=latent.kv_rank), "kv_latent · W_kv_b split into heads")
    elif stage in turned:
        turns = replace(work, share=turned[stage])
        yield _reworded(turns, f"{stage[0]}, {ROTATED_PART.format(latent.d_rope)}")
    else:
        yield work


def _made(
    work: Work, stage: str, axes: tuple[str, ...], shape: tuple[int, ...], formula: str, inner: int
) -> Work:
    return Work(step=StageShape(stage, axes, shape, work.step.dtype, formula), inner=inner)


def _reworded(work: Work, formula: str) -> Work:
    return replace(work, step=replace(work.step, formula=formula))


def _cached(work: Work, layer: Geometry, shown: Shown) -> Work:
    """The stage with the keys that a cache brings left out of its work.

    Of latent attention it brings the latent vectors: k and v are made of all of them again.
    """
    step = work.step
    if not shown.cached or "key" not in step.axes or "query" in step.axes:
        return work
    if layer.latent is not None and step.stage in ("k", "v"):
        return _reworded(work, f"{step.formula}, of all keys: the cache holds kv_latent")
    cached = f"{step.formula}, {shown.cached:,} of {shown.grid.keys:,} keys from the cache"
    return replace(_reworded(work, cached), new=shown.grid.keys - shown.cached)
