"""Tables: rows and heads of a trace as records, and which rows the screen shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results import ROW_NUMBERS, HeadRow, Row, ShownRow, TopKey
from attn_cli.core.trace import TopKeys, Trace
from attn_cli.workflows.selection import Selection

Array = NDArray[Any]
At = tuple[int, int, int]  # item, head, query
Best = Callable[[At], Iterable[tuple[int, float]]]  # keys and weights, the best first

ROWS_SHOWN = 48  # up to this many rows the screen shows them all
ROWS_LISTED = 10_000  # up to this many rows JSON lists them all


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Makes records of the rows of a run. `best` says which keys a row looks at most."""

    inputs: AttentionInputs
    trace: Trace
    best: Best

    def record(self, at: At) -> Row:
        """One query of one head."""
        batch, head, query = at
        labels = self.inputs.labels
        return Row(
            batch=batch,
            head=head,
            query=query,
            token=_token(labels.query if labels else (), batch, query),
            numbers={name: float(self.trace.stats[name][at]) for name in ROW_NUMBERS},
            top=tuple(self._top(at)),
            empty=bool(self.trace.empty[at]),
        )

    def shown(self, picked: Iterable[tuple[At, str]]) -> tuple[ShownRow, ...]:
        """Records with why they are shown."""
        return tuple(ShownRow(self.record(at), why) for at, why in picked)

    def _top(self, at: At) -> Iterator[TopKey]:
        for key, weight in self.best(at):
            if key >= 0 and not math.isnan(weight):  # a row of NaN looks nowhere
                yield TopKey(key, token_of(self.inputs, at[0], key), weight)


def best_of(top: TopKeys) -> Best:
    """The best keys that a run kept of every row."""
    return lambda at: zip(top.keys[at].tolist(), top.weights[at].tolist(), strict=True)


def token_of(inputs: AttentionInputs, batch: int, key: int) -> str:
    """The token of a key, or its index where there are none."""
    return _token(inputs.labels.key if inputs.labels else (), batch, key)


def _token(labels: tuple[tuple[str, ...], ...], batch: int, index: int) -> str:
    return labels[batch][index] if labels else str(index)


def listed(selection: Selection, *, every: bool) -> list[At]:
    """The selected rows by item, head and query; the first 10,000 unless all are asked for."""
    rows = ((*pair, query) for pair in selection.pairs for query in selection.queries)
    return list(rows if every else islice(rows, ROWS_LISTED))


def picked(trace: Trace, selection: Selection, *, every: bool) -> list[tuple[At, str]]:
    """The rows for the screen and why they are there: all of few, else the first, last and unusual
    of each drawn head."""
    if every or len(selection.pairs) * len(selection.queries) <= ROWS_SHOWN:
        return [(at, "") for at in listed(selection, every=True)]
    return unusual(trace, selection.drawn, selection.queries)


def unusual(
    trace: Trace, pairs: Iterable[tuple[int, int]], queries: tuple[int, ...]
) -> list[tuple[At, str]]:
    """The first, the last and the most unusual row of every (item, head), and why."""
    return [
        ((batch, head, query), why)
        for batch, head in pairs
        for query, why in sorted(_remarkable(trace, batch, head, queries).items())
    ]


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
    """(B, H): the mean cosine with the other heads; NaN where there is none."""
    if trace.cosine is None:
        return np.full(trace.empty.shape[:2], np.nan)
    return _mean(trace.cosine, ~np.eye(trace.cosine.shape[-1], dtype=bool))


def _mean(values: Array, counts: NDArray[np.bool_]) -> Array:
    """The mean over the last axis of what counts, NaN where nothing does."""
    number = np.broadcast_to(counts, values.shape).sum(-1)
    total = np.where(counts, values, 0).sum(-1, dtype=np.float64)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)
