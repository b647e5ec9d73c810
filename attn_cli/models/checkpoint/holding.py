"""Holding the tensors of one attention module against what the configuration calls for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from attn_cli.core.problems import Problem
from attn_cli.formats.names import quoted
from attn_cli.models.checkpoint.packed import is_beside, is_packed, stands_in
from attn_cli.models.checkpoint.sizes import Size, grouped
from attn_cli.models.checkpoint.weights import Weights

# Norms beside the projections, tables of positions, masks that old versions saved as buffers.
_NEVER_HELD = re.compile(
    r"(^|\.)(\w*layer_?norm|norm\w*|ln\w*|rotary_emb|rotary_pos_emb|rope|inv_freq|embed_positions"
    r"|relative_position_index)(\.\w+)*$|^(bias|masked_bias)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Module:
    """One attention module: its path, its tensors (name below it → whole name), what it must hold.

    `bias_fields` maps a bias to the field that says it is not there. `ignored` are patterns.
    """

    path: str
    members: Mapping[str, str]
    expected: Mapping[str, tuple[Size, ...]]
    bias_fields: Mapping[str, str | None]
    ignored: tuple[str, ...] = ()


def hold(module: Module, weights: Weights) -> Iterator[Problem]:
    """What is missing, of another shape, or there though nothing reads it. Packed ones are left."""
    missing = [name for name in module.expected if _is_missing(module, name, weights)]
    if missing and not module.members:
        yield _all_missing(module)
    else:
        yield from (_missing(module, name) for name in missing)
    for name, shape in module.expected.items():
        if name in module.members:
            yield from _held(module, name, shape, weights)
    for name in module.members:
        if name not in module.expected and not _is_left(module, name):
            yield _extra(module, name)


def packed_names(module: Module, weights: Weights) -> list[str]:
    """The expected tensors that are stored quantised, so that no shape can be held."""
    return [
        name
        for name in module.expected
        if stands_in(name, module.members)
        or (name in module.members and is_packed(weights.tensors[module.members[name]]))
    ]


def _is_missing(module: Module, name: str, weights: Weights) -> bool:
    whole = f"{module.path}.{name}"
    there = name in module.members or stands_in(name, module.members)
    return not there and whole not in weights.lost


def _all_missing(module: Module) -> Problem:
    names = ", ".join(list(module.expected)[:4])
    more = len(module.expected) - 4
    said = f"{module.path} has none of its tensors: expected {names}"
    return Problem(
        "missing-tensor", said + (f" and {more} more" if more > 0 else ""), layer=module.path
    )


def _missing(module: Module, name: str) -> Problem:
    shape = module.expected[name]
    said = f"{module.path} has no {name}: expected {_tuple(shape)} = {_words(shape)}"
    field = module.bias_fields.get(name)
    if field:
        said += f", since {field} is true"
    return Problem(
        "missing-tensor",
        said,
        layer=module.path,
        tensor=f"{module.path}.{name}",
        field=field or shape[0].field or None,
    )


def _held(
    module: Module, name: str, shape: tuple[Size, ...], weights: Weights
) -> Iterator[Problem]:
    stored = weights.tensors[module.members[name]]
    wanted = tuple(size.value for size in shape)
    if stored.shape == wanted or is_packed(stored):
        return
    said = f"{name} is {_shape(stored.shape)}: expected {_tuple(shape)} = {_words(shape)}"
    if stored.shape == wanted[::-1]:
        said += "; it looks transposed"
    yield Problem(
        "wrong-shape",
        f"{module.path}: {said}",
        layer=module.path,
        tensor=module.members[name],
        field=_field(shape, stored.shape),
        file=stored.file,
    )


def _is_left(module: Module, name: str) -> bool:
    """Whether a tensor that is not called for is known not to matter here."""
    if name in module.bias_fields:
        return False
    known = is_beside(name) or _NEVER_HELD.search(name) is not None
    return known or any(re.search(pattern, name) for pattern in module.ignored)


def _extra(module: Module, name: str) -> Problem:
    field = module.bias_fields.get(name)
    said = f"{module.path} holds {quoted(name)}, which this model does not read"
    if field:
        said += f": {field} is false"
    return Problem(
        "extra-tensor",
        said,
        severity="error" if name in module.bias_fields else "warning",
        layer=module.path,
        tensor=module.members[name],
        field=field,
    )


def _field(shape: tuple[Size, ...], came: tuple[int, ...]) -> str | None:
    """The field of the first axis that differs."""
    axes = zip(shape, came, strict=False)
    return next((size.field for size, axis in axes if size.value != axis), shape[0].field) or None


def _words(shape: tuple[Size, ...]) -> str:
    return " × ".join(grouped(size.words) if len(shape) > 1 else size.words for size in shape)


def _tuple(shape: tuple[Size, ...]) -> str:
    return _shape(tuple(size.value for size in shape))


def _shape(shape: tuple[int, ...]) -> str:
    return str(shape)
