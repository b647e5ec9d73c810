"""Tower: the tensors of one stack, grouped by layer, found by their names alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from attn_cli.models.checkpoint.family import Stack

_PREDICTION = re.compile(r"(^|\.)mtp\.")  # multi-token prediction, beside the layers


@dataclass(frozen=True, slots=True)
class Tower:
    """Layer number → names below the layer → whole names; `prefix` stands before the layers.

    `layers` is the path of a layer with {} for its number.
    """

    prefix: str
    layers: str
    members: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    def path(self, index: int) -> str:
        """The path of a layer's module."""
        return self.prefix + self.layers.format(index)


def find_tower(stack: Stack, names: Iterable[str]) -> Tower:
    """The tower of a stack; without members where no name is of its layers.

    Several prefixes may match (a draft model beside the model): the one with most tensors counts.
    """
    before, _, after = (re.escape(part) for part in stack.layers.partition("{}"))
    path = re.compile(rf"((?:.*?\.)??){before}(\d{{1,6}}){after}\.(.+)", re.DOTALL)
    found: dict[str, dict[int, dict[str, str]]] = {}
    fits: dict[str, bool] = {}
    for name in names:
        match = path.fullmatch(name)
        if match is None:
            continue
        if match[1] not in fits:
            fits[match[1]] = _fits(stack, match[1])
        if not fits[match[1]]:
            continue
        layer = found.setdefault(match[1], {}).setdefault(int(match[2]), {})
        layer[match[3]] = name
    if not found:
        return Tower("", stack.layers)
    prefix = max(found, key=lambda each: (_likeness(stack, found[each]), each))
    return Tower(prefix, stack.layers, found[prefix])


def _fits(stack: Stack, prefix: str) -> bool:
    """Whether a prefix is of this tower, and not of layers that predict several tokens."""
    return bool(re.search(stack.within, prefix)) and not _PREDICTION.search(prefix)


def _likeness(stack: Stack, members: Mapping[int, Mapping[str, str]]) -> tuple[int, int]:
    """How many tensors are of the stack's attention, and how many there are."""
    modules = tuple(f"{attention.module}." for attention in stack.attention)
    names = [name for layer in members.values() for name in layer]
    return sum(name.startswith(modules) for name in names), len(names)
