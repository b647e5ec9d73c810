"""Sheet: a mask and its sizes, and the lines of code that every target begins with."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from attn_cli.core.masks import MaskContext
from attn_cli.masks.expression import MaskExpression
from attn_cli.masks.formula import LONGEST_LINE, Formula, Writing

Loading = Callable[[str], tuple[str, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Sheet:
    """The mask to be written. `empty` names the rows that see no key; "" where there are none.

    `said` is one more comment, on where the mask comes from.

    `loading` maps the path of a mask file to the code that loads it and its imports.
    """

    expression: MaskExpression
    context: MaskContext
    align: str | None = None
    empty: str = ""
    said: str = ""
    loading: Loading | None = None

    def writing(self) -> Writing:
        return Writing(self.context, self.loading)

    @property
    def position(self) -> list[str]:
        """The line that makes a query's position of its index, where they differ."""
        offset = self.context.q_offset
        sign = "+" if offset > 0 else "-"
        return [f"q_pos = q_idx {sign} {abs(offset)}"] if offset else []

    def heading(self, polarity: str, of_empty: str) -> list[str]:
        """Comments: which mask this is, for which sizes, what True or a number means.

        Where rows see no key, `of_empty` tells what comes out there.
        """
        said = [self.said] if self.said else []
        said += [f"{self.empty}: {of_empty}"] if self.empty else []
        context = self.context
        sizes = [f"{context.queries} queries", f"{context.keys} keys"]
        sizes = [f"{context.batch} items", *sizes] if context.batch > 1 else sizes
        sizes = [f"{context.heads} heads", *sizes] if context.heads > 1 else sizes
        if self.align is not None and context.queries != context.keys:
            sizes.append(f"{self.align}: {ALIGNED[self.align]}")
        return comments(str(self.expression), ", ".join(sizes), polarity, *said)


Target = Callable[[Sheet], str]

ALIGNED = {
    "lower-right": "the last query is the last key",
    "upper-left": "query 0 is key 0",
}


def dense(sheet: Sheet, one: Formula, target: str = "mask =") -> Iterator[str]:
    """Lines that make the bool array of a formula, True = may attend, after its tables.

    Its shape is (L, S), or (B, H, L, S) with sizes of 1 where it depends on item or head; axes
    on which it does not depend are expanded.
    """
    yield from one.setup
    yield from indices(sheet, one)
    shape = shape_of(sheet, one)
    lines = one.assigned(target)
    if one.uses("q_idx") or one.uses("q_pos"):
        lines[-1] += f"  # ({', '.join(map(str, shape))})"
    else:
        head, value = target.split(" ")[0], str(one)
        lines = [f"{head} = ({value}).expand({', '.join(map(str, shape))})"]
    yield from lines


def indices(sheet: Sheet, one: Formula) -> Iterator[str]:
    """Lines that make the index arrays which the formula names."""
    context = sheet.context
    if one.uses("b"):
        yield f"b = torch.arange({context.batch}, device=device)[:, None, None, None]"
    if one.uses("h"):
        yield f"h = torch.arange({context.heads}, device=device)[:, None, None]"
    if one.uses("q_idx") or one.uses("q_pos"):
        yield f"q_idx = torch.arange({context.queries}, device=device)[:, None]"
    yield f"kv_idx = torch.arange({context.keys}, device=device)"
    if one.uses("q_pos"):
        yield from sheet.position


def shape_of(sheet: Sheet, one: Formula) -> tuple[int, ...]:
    """The shape of the formula's array: two axes, or four where it depends on item or head."""
    context = sheet.context
    if not (one.uses("b") or one.uses("h")):
        return (context.queries, context.keys)
    batch = context.batch if one.uses("b") else 1
    heads = context.heads if one.uses("h") else 1
    return (batch, heads, context.queries, context.keys)


def comments(*texts: str) -> list[str]:
    """Texts as comment lines that nothing in them can end."""
    plain = ("".join(c if c.isprintable() else repr(c)[1:-1] for c in text) for text in texts)
    width = LONGEST_LINE - 2
    return [f"# {line}" for text in plain for line in textwrap.wrap(text, width)]


def program(*blocks: list[str]) -> str:
    """Blocks of lines as one text, an empty line between them."""
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"
