"""The parts of a mask expression: Term, Combination, Complement. Plain values, without arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from attn_cli.core.masks import Mask, MaskContext
from attn_cli.masks import MASKS
from attn_cli.masks.base import And, Not, Or
from attn_cli.masks.declaration import Bound
from attn_cli.masks.formula import Formula, Writing, inverted, joined

Operator = Literal["&", "|"]


@dataclass(frozen=True, slots=True)
class Term:
    """A mask by name, with one value for each of its parameters."""

    name: str
    values: tuple[Bound, ...]

    def __str__(self) -> str:
        return MASKS[self.name].write(self.values)

    def build(self, context: MaskContext) -> Mask:
        return MASKS[self.name].build(self.values, context)

    def code(self, writing: Writing) -> Formula:
        return MASKS[self.name].code(writing, *self.values)

    def terms(self) -> Iterator[Term]:
        yield self


@dataclass(frozen=True, slots=True)
class Combination:
    """Two or more parts under one operator; no part is a combination under the same one."""

    operator: Operator
    parts: tuple[Node, ...]

    def __str__(self) -> str:
        return f" {self.operator} ".join(_enclosed(part) for part in self.parts)

    def build(self, context: MaskContext) -> Mask:
        parts = tuple(part.build(context) for part in self.parts)
        return And(parts) if self.operator == "&" else Or(parts)

    def code(self, writing: Writing) -> Formula:
        return joined(self.operator, [part.code(writing) for part in self.parts])

    def terms(self) -> Iterator[Term]:
        for part in self.parts:
            yield from part.terms()


@dataclass(frozen=True, slots=True)
class Complement:
    """What a part hides."""

    part: Node

    def __str__(self) -> str:
        return f"~{_enclosed(self.part)}"

    def build(self, context: MaskContext) -> Mask:
        return Not(self.part.build(context))

    def code(self, writing: Writing) -> Formula:
        return inverted(self.part.code(writing))

    def terms(self) -> Iterator[Term]:
        return self.part.terms()


Node = Term | Combination | Complement


def combine(operator: Operator, parts: Sequence[Node]) -> Node:
    """The parts under one operator, parts that are such a combination themselves taken apart."""
    flat: list[Node] = []
    for part in parts:
        same = isinstance(part, Combination) and part.operator == operator
        flat.extend(part.parts if isinstance(part, Combination) and same else [part])
    return flat[0] if len(flat) == 1 else Combination(operator, tuple(flat))


def _enclosed(part: Node) -> str:
    return f"({part})" if isinstance(part, Combination) else str(part)
