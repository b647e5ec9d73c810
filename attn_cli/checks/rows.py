"""Findings about rows: sums that are not 1, empty, finitely filled, saturated and uniform rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.checks.places import count, first_place, rows_in_words
from attn_cli.core.findings import Finding, Severity
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.rounding import accumulator, precision
from attn_cli.core.trace import Trace

Array = NDArray[Any]

SATURATED = 0.99  # a row that gives one of several keys more than this
BY_CHANCE = 0.05  # a share of rows up to this may be saturated or uniform by chance: a note
UNIFORM = 1e-5  # a row whose largest weight is within this share of 1 / visible keys


def row_findings(inputs: AttentionInputs, trace: Trace) -> Iterator[Finding]:
    """What the rows' statistics show; needs sum, visible_keys and max_weight in the trace."""
    yield from _sums(inputs, trace)
    yield from _empty(inputs, trace)
    yield from _finite_fill(inputs, trace)
    yield from _saturated(inputs, trace)
    yield from _uniform(inputs, trace)


def sum_tolerance(dtype: str, keys: int) -> float:
    """How far the sum of `keys` right weights may be from 1: rounded to `dtype`, then added up.

    Each weight is off by half an eps of itself (or half of the smallest number), and each of the
    `keys` additions by half an eps of the accumulator; doubled, since Z was summed the same way.
    """
    wide = float(np.finfo(accumulator(dtype)).eps)
    return 2 * precision(dtype).eps + keys * (wide + precision(dtype).smallest)


def _sums(inputs: AttentionInputs, trace: Trace) -> Iterator[Finding]:
    sums = trace.stats["sum"]
    live = ~trace.empty & np.isfinite(sums)
    if inputs.sinks is not None:
        if live.any():
            taken = np.maximum(1 - sums[live], 0.0)  # rounding takes nothing below 0
            yield Finding(
                "sinks",
                "note",
                f"rows sum below 1 by design: the sink takes {taken.mean():.4f} of the weight on "
                f"average, {taken.min():.4f} to {taken.max():.4f}",
            )
        return
    off = live & (np.abs(sums - 1) > sum_tolerance(trace.provenance.dtype, inputs.shape[3]))
    if off.any():
        worst = sums[off][np.abs(sums[off] - 1).argmax()]
        yield Finding(
            "row-sum",
            "error",
            f"{_rows_that(off, 'of weights does', 'of weights do')} not sum to 1 "
            f"(worst: {worst:.6f}): "
            f"{rows_in_words(off, inputs)}",
            first_place(off, "weights"),
        )


def _empty(inputs: AttentionInputs, trace: Trace) -> Iterator[Finding]:
    if trace.empty.any():
        yield Finding(
            "empty-row",
            "warning",
            f"{_rows_that(trace.empty, 'sees no key', 'see no key')}, so weights, sum and output "
            f"are 0 there: {rows_in_words(trace.empty, inputs)}",
            first_place(trace.empty, "masked"),
        )


def _finite_fill(inputs: AttentionInputs, trace: Trace) -> Iterator[Finding]:
    filled = (trace.stats["visible_keys"] == 0) & ~trace.empty
    if filled.any():
        yield Finding(
            "finite-fill-row",
            "warning",
            f"{_rows_that(filled, 'has', 'have')} every key filled with a large negative number "
            "instead of −inf, so nothing is masked: the constant cancels in the softmax "
            f"(float32 would round the scores away): {rows_in_words(filled, inputs)}",
            first_place(filled, "masked"),
        )


def _saturated(inputs: AttentionInputs, trace: Trace) -> Iterator[Finding]:
    largest, choice = trace.stats["max_weight"], _has_choice(inputs, trace)
    hit = choice & (largest > SATURATED)
    if not hit.any():
        return
    several = int(choice.sum())
    yield Finding(
        "saturated-row",
        _severity(hit, choice),
        f"{hit.sum():,} of {count(several, 'row')} with a choice "
        f"{'gives' if hit.sum() == 1 else 'give'} one key more than {SATURATED} of the weight: "
        f"{rows_in_words(hit, inputs)}",
        first_place(hit, "weights"),
    )


def _uniform(inputs: AttentionInputs, trace: Trace) -> Iterator[Finding]:
    visible, largest = trace.stats["visible_keys"], trace.stats["max_weight"]
    choice = _has_choice(inputs, trace)
    hit = choice & (np.abs(largest * visible - 1) < UNIFORM)
    if hit.any():
        yield Finding(
            "uniform-row",
            _severity(hit, choice),
            f"{_rows_that(hit, 'looks', 'look')} at every visible key alike (the scores do not "
            f"tell them apart): {rows_in_words(hit, inputs)}",
            first_place(hit, "weights"),
        )


def _has_choice(inputs: AttentionInputs, trace: Trace) -> Array:
    """(B, H, L): rows that see more than one key, those of padding left out."""
    choice: Array = trace.stats["visible_keys"] > 1
    if inputs.query_lengths is None:
        return choice
    real = np.arange(inputs.shape[2]) < np.array(inputs.query_lengths)[:, None]
    return choice & real[:, None]


def _severity(hit: Array, choice: Array) -> Severity:
    return "warning" if hit.sum() > BY_CHANCE * choice.sum() else "note"


def _rows_that(hit: Array, one: str, many: str) -> str:
    return f"{count(hit.sum(), 'row')} {one if hit.sum() == 1 else many}"
