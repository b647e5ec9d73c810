"""Softmax on paper: the largest score subtracted, exponentials, their sum, the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np

from attn_cli.core.decimals import (
    difference,
    exponential,
    largest,
    places,
    quotient,
    total,
    written,
)
from attn_cli.core.explanation import OTHERS, SINK, Line, Operation, Rest, Step, Term
from attn_cli.workflows.paper.sheet import Decimals, Sheet

FORMULAS = {
    "maximum": "the largest of them",
    "shifted": "score − maximum",
    "exp": "exp(score − maximum)",
    "sum": "Σ exp",
    "weights": "exp ÷ Σ exp",
    "row_sum": "Σ weights",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """Who has a part in the sum: a key, the sink, or the keys that are not written, as one."""

    label: str
    key: int | None = None


def softmax(sheet: Sheet, masked: Decimals) -> tuple[list[Step], Decimals]:
    """The steps from the masked scores of the written keys to their weights, and these weights.

    The keys that are not written stand together as one: the sum of their exponentials.
    """
    sinks = sheet.row.inputs.sinks
    scores = masked if sinks is None else [*masked, *sheet.given([sinks[sheet.head]])]
    keys = [Entry(sheet.key_label(key), key) for key in sheet.keys]
    entries = keys if sinks is None else [*keys, Entry(SINK)]
    count = len(sheet.others)
    top = largest(scores)
    shifted = written([difference(score, top) for score in scores], sheet.carried)
    powers = written(list(map(exponential, shifted)), sheet.carried)
    lump = [_lump(sheet, top)] if count else []
    rest = Rest(count, lump[0]) if count else None
    (divisor,) = written([total([*powers, *lump])], sheet.carried)
    everyone = [*entries, *([Entry(OTHERS)] if count else [])]
    whole = [*powers, *lump]
    shares = written([quotient(power, divisor) for power in whole], sheet.digits.weights)
    of_others = Rest(count, shares[-1]) if count else None
    weights = shares[: len(keys)]
    (row_sum,) = written([total([*weights, *shares[len(entries) :]])], sheet.digits.weights)
    nothing = Rest(count, None) if count else None
    steps = [
        _gathered(sheet, "maximum", "max", entries, scores, top, nothing),
        _column(sheet, "shifted", "subtract", entries, scores, shifted, top),
        _column(sheet, "exp", "exp", entries, shifted, powers),
        _gathered(sheet, "sum", "sum", entries, powers, divisor, rest),
        _weights(sheet, everyone, whole, shares, divisor),
        _gathered(sheet, "row_sum", "sum", keys, weights, row_sum, of_others),
    ]
    return steps, weights


def _lump(sheet: Sheet, top: Decimal) -> Decimal:
    """What the exponentials of the keys that are not written add up to."""
    with np.errstate(all="ignore"):
        powers = np.exp(sheet.masked[sheet.others] - float(top))
    return sheet.given([float(powers.sum())])[0]


def _gathered(
    sheet: Sheet,
    stage: str,
    operation: Operation,
    entries: Sequence[Entry],
    numbers: Decimals,
    result: Decimal,
    rest: Rest | None,
) -> Step:
    """A step that makes one number of everyone's."""
    terms = tuple(
        Term(number, at=entry.key, name="" if entry.key is not None else entry.label)
        for entry, number in zip(entries, numbers, strict=True)
    )
    line = Line(stage, result, terms, rest=rest)
    return Step(stage, operation, FORMULAS[stage], (line,), sheet.head, "key")


def _column(
    sheet: Sheet,
    stage: str,
    operation: Operation,
    entries: Sequence[Entry],
    numbers: Decimals,
    results: Decimals,
    other: Decimal | None = None,
) -> Step:
    """A step that makes one number of one number, for everyone."""
    lines = (
        Line(entry.label, result, (Term(number, other),), entry.key)
        for entry, number, result in zip(entries, numbers, results, strict=True)
    )
    return Step(stage, operation, FORMULAS[stage], tuple(lines), sheet.head)


def _weights(
    sheet: Sheet, entries: Sequence[Entry], powers: Decimals, shares: Decimals, divisor: Decimal
) -> Step:
    step = _column(sheet, "weights", "divide", entries, powers, shares, divisor)
    ends = places(shares, sheet.digits.weights)
    return replace(step, lines=tuple(replace(line, ends=ends) for line in step.lines))
