"""Tables: rows and heads of a trace as records, and which rows the screen shows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results import ROW_NUMBERS, HeadRow, Row, ShownRow, TopKey
from attn_cli.core.trace import Trace
from attn_cli.workflows.selection import Selection

Array = NDArray[Any]

ROWS_SHOWN = 48  # up to this many rows the screen shows them all
ROWS_LISTED = 10_000  # up to this many rows JSON lists them all


def row(inputs: AttentionInputs, trace: Trace, batch: int, head: int, query: int) -> Row:
    """One query of one head as a record."""
    at = (batch, head, query)
    return Row(
        batch=batch,
        head=head,
        query=query,
        token=_token(inputs.labels.query if inputs.labels else (), batch, query),
        numbers={name: float(trace.stats[name][at]) for name in ROW_NUMBERS},
        top=tuple(_top(inputs, trace, at)),
        empty=bool(trace.empty[at]),
    )


def _top(inputs: AttentionInputs, trace: Trace, at: tuple[int, int, int]) -> Iterator[TopKey]:
    assert trace.top is not None
    for key, weight in zip(
        trace.top.keys[at].tolist(), trace.top.weights[at].tolist(), strict=True
    ):
        if key >= 0 and not math.isnan(weight):  # a row of NaN looks nowhere
            yield TopKey(
                key, _token(inputs.labels.key if inputs.labels else (), at[0], key), weight
            )


def _token(labels: tuple[tuple[str, ...], ...], batch: int, index: int) -> str:
    return labels[batch][index] if labels else str(index)


def listed_rows(
    inputs: AttentionInputs, trace: Trace, selection: Selection, *, every: bool
) -> tuple[Row, ...]:
    """The selected rows by item, head and query; the first 10,000 unless all are asked for."""
    rows = (
        row(inputs, trace, batch, head, query)
        for batch, head in selection.pairs
        for query in selection.queries
    )
    return tuple(rows if every else islice(rows, ROWS_LISTED))


def shown_rows(
    inputs: AttentionInputs, trace: Trace, selection: Selection, *, every: bool
) -> tuple[ShownRow, ...]:
    """The rows for the screen: all of few, else the first, last and unusual of each drawn head."""
    if every or len(selection.pairs) * len(selection.queries) <= ROWS_SHOWN:
        return tuple(ShownRow(r) for r in listed_rows(inputs, trace, selection, every=True))
    shown = []
    for batch, head in selection.drawn:
        for query, why in sorted(_remarkable(trace, batch, head, selection.queries).items()):
            shown.append(ShownRow(row(inputs, trace, batch, head, query), why))
    return tuple(shown)


def _remarkable(trace: Trace, batch: int, head: int, queries: tuple[int, ...]) -> dict[int, str]:
    """query → why it is shown, of one head."""
    picked = {queries[0]: "first", queries[-1]: "last"}
    for why, query in _unusual(trace, batch, head, np.array(queries)):
        picked[query] = f"{picked[query]}, {why}" if query in picked else why
    return picked


def _unusual(trace: Trace, batch: int, head: int, queries: Array) -> Iterator[tuple[str, int]]:
    numbers = {name: trace.stats[name][batch, head, queries] for name in ROW_NUMBERS}
    empty = trace.empty[batch, head, queries]
    lost = ~empty & ~np.isfinite(numbers["sum"])
    for why, hit in (("not finite", lost), ("sees no key", empty)):
        if hit.any():
            yield why, int(queries[hit.argmax()])
    for why, name, sign in (
        ("most focused", "normalized_entropy", -1),
        ("most spread", "normalized_entropy", 1),
        ("looks farthest", "mean_distance", 1),
    ):
        values = sign * numbers[name]
        if np.isfinite(values).any():
            yield why, int(queries[np.where(np.isfinite(values), values, -np.inf).argmax()])


def head_rows(trace: Trace, selection: Selection) -> tuple[HeadRow, ...]:
    """The selected heads with their means; a NaN row makes its head's means NaN."""
    means = {name: _means(trace, name) for name in ROW_NUMBERS}
    cosine, empty = _mean_cosine(trace), trace.empty.sum(-1)
    return tuple(
        HeadRow(
            batch=batch,
            head=head,
            means={name: float(values[batch, head]) for name, values in means.items()},
            mean_cosine=float(cosine[batch, head]),
            empty_rows=int(empty[batch, head]),
        )
        for batch, head in selection.pairs
    )


def _means(trace: Trace, name: str) -> Array:
    """(B, H): the mean over the rows where the number is defined; empty rows are left out."""
    defined = ~trace.empty
    if name == "normalized_entropy":
        defined = defined & (trace.stats["visible_keys"] > 1)
    return _mean(trace.stats[name], defined)


def _mean_cosine(trace: Trace) -> Array:
    """(B, H): the mean cosine with the other heads; NaN where there is no other."""
    assert trace.cosine is not None
    return _mean(trace.cosine, ~np.eye(trace.cosine.shape[-1], dtype=bool))


def _mean(values: Array, counts: NDArray[np.bool_]) -> Array:
    """The mean over the last axis of what counts, NaN where nothing does."""
    number = np.broadcast_to(counts, values.shape).sum(-1)
    total = np.where(counts, values, 0).sum(-1, dtype=np.float64)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)
