"""Sheet: one head's row on paper: what is at hand, how many digits, and the lines of a product."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from attn_cli.core.decimals import Places, given, places, product, total
from attn_cli.core.explanation import Digits, Line, Rest, Term, limited
from attn_cli.workflows.paper.row import Array, Row

Decimals = list[Decimal]


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    """One head of a row.

    `visible` are the keys that the row sees, `keys` those of them that are written and `others` the
    rest; `terms` is how many terms, keys and features are written, None all of few.
    """

    row: Row
    head: int
    digits: Digits
    terms: int | None
    visible: list[int]
    keys: list[int]
    others: list[int]

    @property
    def carried(self) -> int:
        return self.digits.carried

    @property
    def masked(self) -> Array:
        """(S,): the engine's masked scores."""
        return masked(self.row, self.head)

    def worked(self, made: Array) -> list[int]:
        """Which features of a vector are worked out: all of few, the largest of many, in order."""
        order = np.argsort(-np.where(np.isnan(made), np.inf, abs(made)), kind="stable")
        return sorted(order[: limited(len(made), self.terms)].tolist())

    def given(self, numbers: Iterable[float]) -> Decimals:
        """Numbers that were read, or that the engine made, as they are written."""
        return given(list(numbers), self.carried)

    def given_rows(self, rows: Array) -> list[Decimals]:
        """The rows of a matrix, written alike."""
        flat = self.given(np.ravel(rows).tolist())
        width = rows.shape[1]
        return [flat[start : start + width] for start in range(0, len(flat), width)]

    def key_label(self, key: int) -> str:
        labels = self.row.inputs.labels
        return str(key) if labels is None else labels.key[self.row.item][key]


def sheet_of(row: Row, head: int, digits: Digits, terms: int | None) -> Sheet:
    """The sheet of one head: the keys that are written are all of few, the heaviest of many."""
    visible = np.flatnonzero(row.visible(head))
    scores = masked(row, head)[visible]
    order = np.argsort(-np.where(np.isnan(scores), np.inf, scores), kind="stable")
    kept = limited(len(visible), terms)
    keys, others = (sorted(visible[part].tolist()) for part in (order[:kept], order[kept:]))
    return Sheet(row, head, digits, terms, visible.tolist(), keys, others)


def masked(row: Row, head: int) -> Array:
    """(S,): one head's masked scores as the engine made them."""
    scores: Array = row["masked"][head]
    return scores


@dataclass(frozen=True, slots=True)
class Factor:
    """One column of a matrix, to be multiplied by a common vector: its place and what is added."""

    label: str
    index: int
    numbers: Sequence[Decimal]
    added: Decimal | None = None
    rest: Rest | None = None


def dots(
    a: Sequence[Decimal],
    factors: Sequence[Factor],
    *,
    digits: int,
    result_digits: int | None = None,
    at: Sequence[int] | None = None,
) -> tuple[Line, ...]:
    """a · b of every factor b, all products and results of the lines written alike.

    `at` are the indices of the terms, 0, 1, … where they are not given.
    """
    raw = [[product(x, y) for x, y in zip(a, b.numbers, strict=True)] for b in factors]
    exact = [_sum(row, factor) for row, factor in zip(raw, factors, strict=True)]
    how = places([*(number for row in raw for number in row), *exact], digits)
    fewer = 0 if result_digits is None else digits - result_digits
    ends = Places(digits - fewer, how.places - fewer)
    indices = range(len(a)) if at is None else at
    lines = []
    for factor, row in zip(factors, raw, strict=True):
        products = list(map(how, row))
        terms = tuple(map(Term, a, factor.numbers, products, indices))
        result = ends(_sum(products, factor))
        lines.append(
            Line(
                factor.label,
                result,
                terms,
                index=factor.index,
                rest=factor.rest,
                added=factor.added,
                places=how,
                ends=ends,
            )
        )
    return tuple(lines)


def _sum(products: Iterable[Decimal], factor: Factor) -> Decimal:
    rest = None if factor.rest is None else factor.rest.value
    return total([*products, *(n for n in (factor.added, rest) if n is not None)])


def completed(lines: Iterable[Line], made: Sequence[Decimal]) -> tuple[Line, ...]:
    """The lines that are worked out, and between them for all other indices the results alone."""
    worked = {line.index: line for line in lines}
    return tuple(
        worked.get(index, Line(str(index), number, index=index))
        for index, number in enumerate(made)
    )
