"""Fitting: what a configuration's own numbers say, and the layers that it counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attn_cli.core.geometry import LayerGeometry
from attn_cli.core.layer import working_head_counts
from attn_cli.core.problems import Problem
from attn_cli.models.checkpoint.family import Stack
from attn_cli.models.checkpoint.fields import Fields
from attn_cli.models.checkpoint.shape import Widths
from attn_cli.models.checkpoint.sizes import Size
from attn_cli.models.checkpoint.tower import Tower
from attn_cli.models.checkpoint.weights import Weights

_SHOWN = 8  # head counts, layers


def sizes_fit(sizes: Widths, fields: Fields) -> Iterator[Problem]:
    """Heads that do not divide: by the key/value heads, or the width that is cut into them."""
    heads, kv_heads, d_model = sizes.heads, sizes.kv_heads, sizes.d_model
    place = fields.place.removesuffix(" ") or "config.json"
    if heads.value % kv_heads.value:
        works = [n for n in working_head_counts(heads.value) if n <= kv_heads.value]
        yield Problem(
            "kv-heads",
            f"{place}: {heads.value} {heads.words} do not divide into {kv_heads.value} "
            f"{kv_heads.words}: {_counts(works)} would",
            field=kv_heads.field,
        )
    cut = sizes.latent is None and " // " in sizes.d_k.words
    if cut and d_model.value % heads.value:
        works = list(working_head_counts(d_model.value))
        yield Problem(
            "heads",
            f"{place}: {d_model.words} {d_model.value} is not cut evenly by {heads.value} "
            f"{heads.words}, and no head_dim is given: {_counts(works)} would",
            field=heads.field,
        )


def counted(
    stack: Stack,
    fields: Fields,
    tower: Tower,
    layers: Sequence[LayerGeometry],
    count: Size,
    weights: Weights,
) -> Iterator[Problem]:
    """Layers that the configuration counts and no tensor is of, and the other way round."""
    numbers = {stack.number(fields, layer.index) for layer in layers}
    behind = (fields.count(stack.extra_layers) or 0) if stack.extra_layers else 0
    softmax = {stack.number(fields, e.index) for e in layers if e.kind == "softmax"}
    for number in sorted(numbers - set(tower.members) - softmax):
        path = tower.path(number)
        yield Problem(
            "missing-layer",
            f"{path} has no tensors, and {_said(count)}: is the file whole?",
            layer=path,
            field=count.field,
        )
    extra = sorted(n for n in tower.members if n not in numbers and n >= max(numbers, default=0))
    if len(extra) > behind:
        paths = [tower.path(number) for number in extra[behind:]]
        shown = ", ".join(paths[:_SHOWN]) + (" …" if len(paths) > _SHOWN else "")
        yield Problem(
            "extra-layer",
            f"the tensors hold {shown}, and {_said(count)}: is it {extra[-1] + 1}?",
            layer=paths[0],
            field=count.field,
        )


def _said(count: Size) -> str:
    return f"{count.field} counts {count.value} layer" + ("" if count.value == 1 else "s")


def _counts(counts: list[int]) -> str:
    """The last of some counts, which are the nearest from below, or all of few."""
    return ", ".join(map(str, counts[-_SHOWN:])) or "1"
