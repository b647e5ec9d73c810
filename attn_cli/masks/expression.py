"""MaskExpression: a mask as people write it, parsed once, built for each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attn_cli.core.masks import Mask, MaskContext
from attn_cli.masks import MASKS
from attn_cli.masks.declaration import MaskKind
from attn_cli.masks.formula import Formula, Writing
from attn_cli.masks.parser import parse_tree
from attn_cli.masks.tree import Node, combine


@dataclass(frozen=True, slots=True)
class MaskExpression:
    """A mask before it knows the sizes of a run; equal where the normalised text is.

    >>> expression = parse("causal&(window(256)|sink(4))")
    >>> print(expression)
    causal & (window(256) | sink(4))
    >>> expression.names_used()
    ('causal', 'window', 'sink')
    """

    root: Node

    def __str__(self) -> str:
        """The normalised text; parsing it gives the same expression."""
        return str(self.root)

    def names_used(self) -> tuple[str, ...]:
        """The names of its masks, each once, in order of appearance."""
        return tuple(dict.fromkeys(term.name for term in self.root.terms()))

    @property
    def compares_positions(self) -> bool:
        """Whether it needs to know how queries and keys of different number line up."""
        return any(MASKS[name].compares_positions for name in self.names_used())

    def build(self, context: MaskContext) -> Mask:
        """The mask for one run; InputError where it does not fit the run's sizes."""
        return self.root.build(context)

    def code(self, writing: Writing) -> Formula:
        """The mask as PyTorch operations; for sizes that `build` accepts."""
        return self.root.code(writing)


def parse(text: str) -> MaskExpression:
    """The expression that `text` writes: masks of the registry, & | ~ and parentheses.

    InputError says in one sentence what cannot be read; nothing in the text is evaluated.
    """
    return MaskExpression(parse_tree(text))


def conjunction(expressions: Sequence[MaskExpression]) -> MaskExpression:
    """What all of them let through; of no expressions: the mask `none`.

    >>> print(conjunction([parse("causal"), parse("window(2) | sink(1)")]))
    causal & (window(2) | sink(1))
    """
    if not expressions:
        return parse("none")
    return MaskExpression(combine("&", [expression.root for expression in expressions]))


def describe(expression: MaskExpression | None = None) -> list[MaskKind]:
    """Name, signature and description of every mask, or of those that an expression uses."""
    return [MASKS[name] for name in (expression.names_used() if expression else MASKS)]
