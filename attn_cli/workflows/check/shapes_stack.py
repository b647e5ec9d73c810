"""Shapes of many layers: equal ones together, each at the lengths and with the mask it has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from attn_cli.core.cost import ITEMSIZE
from attn_cli.core.geometry import Geometry, LayerGeometry
from attn_cli.core.problems import Problem
from attn_cli.core.results_shapes import LayerShapes, Sizes
from attn_cli.errors import InputError
from attn_cli.positions import POSITIONS
from attn_cli.workflows.check.shapes_fit import divisors, dtype_problem, near, widths
from attn_cli.workflows.check.shapes_layers import Shown, layer_shapes
from attn_cli.workflows.check.shapes_numbers import BATCH, check_size
from attn_cli.workflows.check.shapes_options import ShapesOptions
from attn_cli.workflows.check.shapes_pairs import Grid, expression_of, in_full, mask_problems

LENGTH = 1024  # where nothing is said and the model takes as many
KV_HEADS = "kv-heads-do-not-divide"
FATAL = frozenset({KV_HEADS, "odd-width"})  # no trace can be made then


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The layers of a model: the precision of its numbers, and how long its inputs may be."""

    layers: tuple[LayerGeometry, ...]
    dtype: str
    longest: int | None = None
    masks: tuple[str, ...] | None = None  # of all layers; None: what their geometry says


@dataclass(frozen=True, slots=True)
class Looked:
    """The groups of equal layers, and what does not fit in them."""

    groups: tuple[LayerShapes, ...]
    problems: tuple[Problem, ...]


def look_at(stack: Stack, asked: ShapesOptions) -> Looked:
    """Every group of equal layers that was asked for, and the problems of each once.

    InputError for a length that is none, a layer that is not there and a mask that cannot be read.
    """
    _check(stack, asked)
    dtype = asked.dtype or stack.dtype
    problems = list(_of_lengths(stack, asked))
    unknown = dtype_problem(dtype)
    if unknown is not None:
        problems.append(unknown)
    groups = []
    for places in _alike(stack, asked):
        first = stack.layers[places[0]]
        group, said = _group(first, places, stack, asked, dtype)
        groups.append(group)
        problems += said
    return Looked(tuple(groups), tuple(dict.fromkeys(problems)))


def mask_of(layer: Geometry) -> tuple[str, ...]:
    """What a layer lets through by its own settings, as mask expressions.

    >>> mask_of(Geometry(heads=1, kv_heads=1, d_k=8, d_v=8, causal=True, window=4))
    ('causal', 'window(4)')
    """
    both = "" if layer.causal else ", both"
    parts = {
        "causal": layer.causal,
        f"window({layer.window}{both})": layer.window,
        f"block({layer.chunk})": layer.chunk,
    }
    return tuple(text for text, there in parts.items() if there)


def _check(stack: Stack, asked: ShapesOptions) -> None:
    for name in ("batch", "seq", "key_seq"):
        check_size(name, getattr(asked, name))
    for place in asked.layers or ():
        if place >= len(stack.layers):
            raise InputError(
                f"--layer names {place}, and there are {len(stack.layers)} layers, "
                f"0 to {len(stack.layers) - 1}"
            )
    expression_of(asked.choices.masks)


def _of_lengths(stack: Stack, asked: ShapesOptions) -> Iterator[Problem]:
    queries, longest = _queries(stack, asked), stack.longest
    if longest is not None and max(queries, asked.key_seq or 0) > longest:
        yield Problem(
            "beyond-positions",
            f"{max(queries, asked.key_seq or 0):,} positions are more than the {longest:,} that "
            "the model was made for: give a shorter --seq",
            severity="warning",
            field="--seq",
        )
    layers = [each.geometry for each in stack.layers if each.geometry is not None]
    own = [layer for layer in layers if not layer.cross]
    if asked.key_seq is None or not own or len(own) < len(layers):
        return
    if asked.key_seq < queries:
        yield Problem(
            "fewer-keys-than-queries",
            f"{queries:,} queries and {asked.key_seq:,} keys: a layer that attends to its own "
            "tokens has a key for each of them; give a --key-seq of as many or more (the rest "
            "comes from a cache)",
            field="--key-seq",
        )
    elif asked.key_seq > queries and not all(layer.causal for layer in own):
        yield Problem(
            "no-cache",
            "more keys than queries come from a cache, and layers that are not causal keep none: "
            "leave --key-seq out",
            field="--key-seq",
        )


def _queries(stack: Stack, asked: ShapesOptions) -> int:
    return asked.seq or min(LENGTH, stack.longest or LENGTH, asked.key_seq or LENGTH)


def _alike(stack: Stack, asked: ShapesOptions) -> Iterator[list[int]]:
    """The places of the layers that were asked for, equal ones together, in order."""
    wanted = range(len(stack.layers)) if asked.layers is None else asked.layers
    groups: dict[object, list[int]] = {}
    for place in wanted:
        layer = stack.layers[place]
        groups.setdefault((layer.stack, layer.kind, layer.says, layer.geometry), []).append(place)
    yield from groups.values()


def _group(
    first: LayerGeometry, places: Sequence[int], stack: Stack, asked: ShapesOptions, dtype: str
) -> tuple[LayerShapes, list[Problem]]:
    """One group of equal layers, told by its first; without a trace where none can be made."""
    layer = first.geometry
    if layer is None:
        queries = _queries(stack, asked)
        sizes = Sizes(batch=asked.batch or BATCH, queries=queries, keys=queries, dtype=dtype)
        return LayerShapes(layers=tuple(places), sizes=sizes), []
    shown = _shown(layer, stack, asked, dtype)
    grid = shown.grid
    problems = [*_heads(layer, first.path), *widths(layer, dtype, first.path)]
    if asked.choices.masks:
        problems += mask_problems(shown.expression, grid)
    short = not layer.cross and grid.keys < grid.queries
    fits = not short and dtype in ITEMSIZE and not any(each.code in FATAL for each in problems)
    sizes = Sizes(batch=grid.batch, queries=grid.queries, keys=grid.keys, dtype=dtype)
    group = LayerShapes(layers=tuple(places), sizes=sizes, geometry=layer)
    if fits:
        try:
            group = layer_shapes(layer, shown, places)
        except InputError as error:  # a softcap below 0
            problems.append(Problem("does-not-fit", in_full(error), layer=first.path))
    if not (layer.causal or layer.cross):  # an encoder reads everything at once
        group = replace(group, cache=0, cached=0)
    return group, [each for problem in problems for each in _of_each(problem, places, stack)]


def _of_each(problem: Problem, places: Sequence[int], stack: Stack) -> Iterator[Problem]:
    """The problem of the first of equal layers, as that of every one of them."""
    for place in places if problem.layer is not None else places[:1]:
        path = problem.layer and stack.layers[place].path
        yield replace(problem, layer=path)


def _shown(layer: Geometry, stack: Stack, asked: ShapesOptions, dtype: str) -> Shown:
    """How one layer is looked at: its lengths, its mask, and how many keys a cache brings.

    Where some layers attend to another sequence, --key-seq is the length of that one; a mask that
    was asked for is for the layers that attend to their own tokens.
    """
    queries, own = _queries(stack, asked), not layer.cross
    crossed = any(each.geometry is not None and each.geometry.cross for each in stack.layers)
    keys = queries if own and crossed else asked.key_seq or queries
    masks = asked.choices.masks or (mask_of(layer) if stack.masks is None else stack.masks)
    grown = own and keys > queries
    return Shown(
        grid=Grid(
            batch=asked.batch or BATCH,
            heads=layer.heads,
            queries=queries,
            keys=keys,
            align="lower-right" if grown else None,
        ),
        dtype=dtype,
        expression=expression_of(masks) if own else None,
        cached=keys - queries if grown else 0,
    )


def _heads(layer: Geometry, path: str) -> Iterator[Problem]:
    if layer.heads % layer.kv_heads:
        yield Problem(
            KV_HEADS,
            f"{layer.heads} query heads cannot share {layer.kv_heads} key/value heads evenly: "
            f"{near(divisors(layer.heads), layer.kv_heads)} key/value heads can",
            layer=path,
            stage="k",
        )
    scheme = POSITIONS[(layer.positions or "none").partition(":")[0]]
    turned = layer.d_k if layer.latent is None else layer.latent.d_rope
    if scheme.acts == "rotates" and turned % 2:
        yield Problem(
            "odd-width",
            f"RoPE turns pairs of features, and a head has {turned}: expected an even number",
            layer=path,
            stage="q_rotated",
        )
