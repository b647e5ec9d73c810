"""Scores on paper: q · k of every written key, then scaled, capped, biased and masked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

import numpy as np

from attn_cli.core.decimals import (
    product,
    quotient,
    root,
    tanh,
    text,
    total,
    written,
)
from attn_cli.core.explanation import Line, Operation, Step, Term
from attn_cli.core.steps import scaling
from attn_cli.workflows.paper.sheet import Decimals, Factor, Sheet, dots

MORE = 2  # digits of √d_k beyond those that are carried, so that every score keeps its own


def masked_scores(sheet: Sheet, q: Decimals, k: Sequence[Decimals]) -> tuple[list[Step], Decimals]:
    """The steps from q · kᵀ to the masked scores of the written keys, and these scores."""
    steps = [_scores(sheet, q, k)]
    for step in (_scaled, _softcapped, _biased, _masked):
        steps += step(sheet, list(steps[-1].results) if steps[-1].lines else _before(steps))
    return steps, _before(steps)


def _before(steps: Sequence[Step]) -> Decimals:
    """The results of the last step that has lines for the keys."""
    last = next(step for step in reversed(steps) if step.lines and step.stage != "scale")
    return list(last.results)


def _scores(sheet: Sheet, q: Decimals, k: Sequence[Decimals]) -> Step:
    factors = [
        Factor(sheet.key_label(key), key, numbers)
        for key, numbers in zip(sheet.keys, k, strict=True)
    ]
    turned = "" if sheet.row.inputs.rotation is None else "_rotated"
    names = (f"q{turned}", f"k{turned}")
    lines = dots(q, factors, digits=sheet.carried)
    formula = f"{names[0]} · {names[1]}"
    return Step("scores", "dot", formula, lines, sheet.head, "feature", names)


def _scaled(sheet: Sheet, scores: Decimals) -> Iterator[Step]:
    inputs = sheet.row.inputs
    if inputs.effective_scale == 1:
        return
    if inputs.scale is not None:
        (factor,) = sheet.given([inputs.scale])
        results = [product(score, factor) for score in scores]
        yield keyed(sheet, "scaled", "multiply", scaling(inputs), scores, results, factor)
        return
    width = Decimal(inputs.q.shape[3])
    (divisor,) = written([root(width)], sheet.carried + MORE)
    line = Line("√d_k", divisor, (Term(width),))
    yield Step("scale", "sqrt", f"√{width}", (line,), sheet.head)
    results = [quotient(score, divisor) for score in scores]
    yield keyed(sheet, "scaled", "divide", scaling(inputs), scores, results, divisor)


def _softcapped(sheet: Sheet, scores: Decimals) -> Iterator[Step]:
    if sheet.row.inputs.softcap is None:
        return
    (cap,) = sheet.given([sheet.row.inputs.softcap])
    results = [product(cap, tanh(quotient(score, cap))) for score in scores]
    formula = f"{text(cap)} · tanh(scaled ÷ {text(cap)})"
    yield keyed(sheet, "softcapped", "softcap", formula, scores, results, cap)


def _biased(sheet: Sheet, scores: Decimals) -> Iterator[Step]:
    added = list(_biases(sheet))
    if added:
        yield _sums(sheet, "biased", scores, added)


def _biases(sheet: Sheet) -> Iterator[tuple[str, Decimals]]:
    """What is added to the written keys' scores, by name."""
    inputs, at = sheet.row.inputs, (sheet.row.item, sheet.head, sheet.row.query)
    if inputs.bias is not None:
        bias = np.broadcast_to(inputs.bias, inputs.shape)[at][sheet.keys]
        yield "bias", sheet.given(bias.tolist())
    if inputs.position_bias is not None:
        b, h, _ = (np.array([[[index]]]) for index in at)
        q_pos = np.array([[[inputs.query_positions[sheet.row.query]]]])
        every = inputs.position_bias(b, h, q_pos, np.arange(inputs.shape[3]).reshape(1, 1, -1))
        yield inputs.position_bias.name, sheet.given(every[0, 0][sheet.keys].tolist())


def _masked(sheet: Sheet, scores: Decimals) -> Iterator[Step]:
    inputs = sheet.row.inputs
    if inputs.additive is not None:
        fill = np.broadcast_to(inputs.additive, inputs.shape)
        fill = fill[sheet.row.item, sheet.head, sheet.row.query][sheet.keys]
        yield _sums(sheet, "masked", scores, [("mask", sheet.given(fill.tolist()))])
    hidden = hidden_keys(sheet)
    if hidden:
        yield Step("masked", "hide", "−∞ where hidden", (), sheet.head, hidden=hidden)


def hidden_keys(sheet: Sheet) -> tuple[int, ...]:
    """The keys that take no part."""
    return tuple(np.flatnonzero(~sheet.row.visible(sheet.head)).tolist())


def _sums(
    sheet: Sheet, stage: str, scores: Decimals, added: Sequence[tuple[str, Decimals]]
) -> Step:
    """The scores with what is added to each."""
    lines = []
    names = ["score", *(name for name, _ in added)]
    columns = [scores, *(numbers for _, numbers in added)]
    results = written(list(map(total, zip(*columns, strict=True))), sheet.carried)
    for place, (key, result) in enumerate(zip(sheet.keys, results, strict=True)):
        terms = (
            Term(numbers[place], name=name) for name, numbers in zip(names, columns, strict=True)
        )
        lines.append(Line(sheet.key_label(key), result, tuple(terms), key))
    return Step(stage, "sum", " + ".join(names), tuple(lines), sheet.head)


def keyed(
    sheet: Sheet,
    stage: str,
    operation: Operation,
    formula: str,
    numbers: Decimals,
    results: Decimals,
    other: Decimal | None = None,
) -> Step:
    """A step that makes one number of one number, for every written key."""
    lines = (
        Line(sheet.key_label(key), result, (Term(number, other),), key)
        for key, number, result in zip(
            sheet.keys, numbers, written(results, sheet.carried), strict=True
        )
    )
    return Step(stage, operation, formula, tuple(lines), sheet.head)
