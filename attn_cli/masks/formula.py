"""Formula: a mask written as PyTorch operations on positions, with what it needs before it."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from attn_cli.core.masks import MaskContext

LONGEST_LINE = 88  # characters of pasted code

Operator = Literal["", "&", "|"]
_CLOSED = re.compile(r"\w+(\[[^\[\]]*\])?|~\(.*\)")  # a single part without parentheses of need


@dataclass(frozen=True, slots=True)
class Formula:
    """A Python expression of bool tensors: `parts` joined by `operator`, or the only part.

    It speaks of the names of a Writing. `setup` are the statements that must run before it, one
    or more lines each; `imports` are the import lines that these need.
    """

    parts: tuple[str, ...]
    operator: Operator = ""
    setup: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f" {self.operator} ".join(self.parts)

    def uses(self, name: str) -> bool:
        """Whether a name occurs in the expression itself."""
        return re.search(rf"\b{name}\b", str(self)) is not None

    def assigned(self, target: str, indent: str = "") -> list[str]:
        """`target` followed by the expression, broken into lines where one would be too long."""
        line = f"{indent}{target} {self}"
        if len(line) <= LONGEST_LINE or not self.operator:
            return [line]
        first, *others = self.parts
        inner = [f"{indent}    {first}", *(f"{indent}    {self.operator} {p}" for p in others)]
        return [f"{indent}{target} (", *inner, f"{indent})"]


@dataclass(slots=True)
class Writing:
    """What a mask needs to know to write itself: the run's sizes and the names in its formula.

    `q` and `k` are the positions of query and key, `row` and `k` their indices, `b` and `h` the
    batch item and the head; tables lie on `device`.
    """

    context: MaskContext
    loading: Callable[[str], tuple[str, tuple[str, ...]]] | None = None
    k: str = "kv_idx"
    row: str = "q_idx"
    b: str = "b"
    h: str = "h"
    taken: Counter[str] = field(default_factory=Counter)

    @property
    def q(self) -> str:
        return "q_pos" if self.context.q_offset else self.row

    def name(self, wanted: str) -> str:
        """A name for a table: the one that is wanted, with a number after its first use."""
        self.taken[wanted] += 1
        return wanted if self.taken[wanted] == 1 else f"{wanted}_{self.taken[wanted]}"


def formula(text: str, *more: str, operator: Operator = "&", setup: Sequence[str] = ()) -> Formula:
    """One comparison, or several joined; each is put into parentheses where it needs them."""
    if not more:
        return Formula((text,), setup=tuple(setup))
    return Formula(tuple(map(_enclosed, (text, *more))), operator, tuple(setup))


def joined(operator: Operator, formulas: Sequence[Formula]) -> Formula:
    """Formulas under one operator; parts that say the same are written once.

    >>> print(joined("&", [formula("k <= q"), formula("k > q - 2", "k <= q")]))
    (k <= q) & (k > q - 2)
    """
    if len(formulas) == 1:
        return formulas[0]
    parts: list[str] = []
    for one in formulas:
        if one.operator == operator:
            parts += one.parts
        else:
            parts.append(f"({one})" if one.operator else _enclosed(str(one)))
    return Formula(
        tuple(dict.fromkeys(parts)),
        operator,
        tuple(dict.fromkeys(statement for one in formulas for statement in one.setup)),
        tuple(dict.fromkeys(line for one in formulas for line in one.imports)),
    )


def inverted(one: Formula) -> Formula:
    """What the formula hides.

    >>> print(inverted(formula("k <= q")))
    ~(k <= q)
    """
    return Formula((f"~({one})",), setup=one.setup, imports=one.imports)


def literal(numbers: Sequence[int], before: str, after: str) -> str:
    """Code with a list of numbers in its middle, over as many lines as it takes.

    >>> literal((3, 5), "lengths = torch.tensor(", ")")
    'lengths = torch.tensor([3, 5])'
    """
    line = f"{before}[{', '.join(map(str, numbers))}]{after}"
    if len(line) <= LONGEST_LINE:
        return line
    inside = textwrap.wrap(", ".join(map(str, numbers)), LONGEST_LINE - 5)
    return "\n".join([f"{before}[", *(f"    {part}" for part in inside), f"]{after}"])


def _enclosed(text: str) -> str:
    return text if _CLOSED.fullmatch(text) else f"({text})"
