"""One stack of a checkpoint → its layers and what does not fit in them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from attn_cli.core.geometry import Geometry, LayerGeometry
from attn_cli.core.problems import Problem
from attn_cli.models.checkpoint.family import At, Attention, Mixer, Stack
from attn_cli.models.checkpoint.fields import MOST_LAYERS, Fields
from attn_cli.models.checkpoint.fitting import counted, sizes_fit
from attn_cli.models.checkpoint.holding import Module, hold, packed_names
from attn_cli.models.checkpoint.mixers import mixer_of
from attn_cli.models.checkpoint.shape import (
    Widths,
    bias_field,
    expected,
    has_bias,
    holds,
    widths,
)
from attn_cli.models.checkpoint.sizes import Size
from attn_cli.models.checkpoint.tower import Tower, find_tower
from attn_cli.models.checkpoint.weights import Weights


@dataclass(frozen=True, slots=True)
class Reading:
    """What one stack comes to; `packed` counts quantised projections, `used` are its tensors."""

    layers: tuple[LayerGeometry, ...] = ()
    problems: tuple[Problem, ...] = ()
    packed: int = 0
    used: frozenset[str] = field(default_factory=frozenset)


def read_stack(stack: Stack, fields: Fields, weights: Weights) -> Reading:
    """The layers of a stack in order. A stack that may be missing, and is, comes to nothing."""
    tower = find_tower(stack, [*weights.tensors, *weights.lost])
    if stack.optional and weights.tensors and not tower.members:
        return Reading()
    count = _count(stack, fields)
    problems = list(_fits(stack, fields)) if stack.attention else []
    layers: list[LayerGeometry] = []
    modules: dict[str, Module] = {}  # by path: layers may share one
    for index in range(count.value):
        at = At(fields, index, count.value)
        word = stack.kinds(at) or "attention"
        for layer, module in _layer(stack, At(fields, index, count.value, word), tower):
            layers.append(layer)
            if module is not None:
                modules[module.path] = _present(module, weights)
    if weights.tensors:
        problems += counted(stack, fields, tower, layers, count, weights)
        for module in modules.values():
            problems += hold(module, weights)
    packed = sum(len(packed_names(module, weights)) for module in modules.values())
    used = frozenset(name for module in modules.values() for name in module.members.values())
    return Reading(tuple(layers), tuple(problems), packed, used)


def _count(stack: Stack, fields: Fields) -> Size:
    """How many layers there are: a number, or as many as a list or a text has entries."""
    if stack.counted_by and (entry := fields.found(*stack.counted_by)) is not None:
        name, listed = entry
        if isinstance(listed, (list, str)) and 0 < len(listed) <= MOST_LAYERS:
            return Size(len(listed), name, name)
    return fields.needed("layers", most=MOST_LAYERS)


def _present(module: Module, weights: Weights) -> Module:
    """The module without the tensors of a shard that is missing."""
    if not weights.lost:
        return module
    there = {name: whole for name, whole in module.members.items() if whole in weights.tensors}
    return replace(module, members=there)


def _fits(stack: Stack, fields: Fields) -> Iterator[Problem]:
    """What the numbers of the configuration alone say, once a stack."""
    latent = any(attention.latent for attention in stack.attention)
    yield from sizes_fit(widths(stack, fields, latent=latent), fields)


def _layer(stack: Stack, at: At, tower: Tower) -> Iterator[tuple[LayerGeometry, Module | None]]:
    """The attention modules of one layer, or what stands in their place."""
    mixer = mixer_of(stack, at.word)
    layer = tower.path(stack.number(at.fields, at.index))
    if mixer.kind == "softmax":
        for attention in stack.attention:
            yield _attention(stack, attention, at, tower)
    else:
        yield _other(stack, mixer, at.index, layer)
    if stack.both is not None:
        yield _other(stack, stack.both, at.index, layer)


def _other(
    stack: Stack, mixer: Mixer, index: int, layer: str
) -> tuple[LayerGeometry, Module | None]:
    path = f"{layer}.{mixer.module}" if mixer.module else layer
    return (
        LayerGeometry(path=path, index=index, kind=mixer.kind, says=mixer.says, stack=stack.name),
        None,
    )


def _attention(
    stack: Stack, attention: Attention, at: At, tower: Tower
) -> tuple[LayerGeometry, Module]:
    number = stack.number(at.fields, at.index)
    path = f"{tower.path(number)}.{attention.module}"
    sizes = widths(stack, at.fields, latent=attention.latent)
    geometry = _geometry(stack, attention, sizes, at)
    says = "cross-attention" if attention.cross else mixer_of(stack, at.word).says
    layer = LayerGeometry(
        path=path, index=at.index, kind="softmax", says=says, stack=stack.name, geometry=geometry
    )
    start = f"{attention.module}."
    members = {
        name.removeprefix(start): whole
        for name, whole in tower.members.get(number, {}).items()
        if name.startswith(start)
    }
    return layer, _module(attention, path, members, sizes, at.fields)


def _module(
    attention: Attention, path: str, members: Mapping[str, str], sizes: Widths, fields: Fields
) -> Module:
    names = {"q": attention.q, "k": attention.k, "v": attention.v, "o": attention.o}
    if attention.qkv is not None:
        names = {"q": attention.qkv, "o": attention.o}
    biases = {
        attention.bias_name.get(letter, f"{name}.bias"): bias_field(attention, letter)
        for letter, name in names.items()
        if name is not None
    }
    return Module(path, members, expected(attention, sizes, fields), biases, attention.ignored)


def _geometry(stack: Stack, attention: Attention, sizes: Widths, at: At) -> Geometry:
    fields, d_k = at.fields, sizes.d_k.value
    at = At(fields, at.index, at.count, at.word, d_k)
    scale = stack.scale(at)
    plain = scale is not None and math.isclose(scale, d_k**-0.5, rel_tol=1e-9)
    return Geometry(
        heads=sizes.heads.value,
        kv_heads=sizes.kv_heads.value,
        d_k=d_k,
        d_v=sizes.d_v.value,
        d_model=sizes.d_model.value,
        d_out=None if attention.o is None else sizes.d_model.value,
        projected=True,
        biases=_biases(attention, sizes, fields),
        cross=attention.cross,
        causal=not attention.cross and holds(stack.causal, fields),
        window=None if attention.cross else stack.window(at) or None,
        chunk=None if attention.cross else stack.chunk(at) or None,
        scale=None if plain else scale,
        softcap=stack.softcap(at) or None,
        sinks=holds(stack.sinks, fields),
        gated=attention.gated,
        positions=None if attention.cross else stack.positions(at),
        latent=sizes.latent,
    )


def _biases(attention: Attention, sizes: Widths, fields: Fields) -> frozenset[str]:
    """The letters of q, k, v, o with a bias; q of latent attention has one in its latent alone."""
    direct = sizes.latent is not None and sizes.latent.q_rank is None
    letters = "kvo" if direct else "qkvo"
    return frozenset(letter for letter in letters if has_bias(attention, letter, fields))
