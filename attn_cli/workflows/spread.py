"""spread: the rows of a long run as a whole: how their numbers are distributed, and where."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results import ShownRow, TopKey
from attn_cli.core.results_spread import QUANTILES, Distribution, HeadSpread, Spread, Stretch
from attn_cli.core.trace import Trace
from attn_cli.workflows.selection import Selection
from attn_cli.workflows.tables import token_of

Array = NDArray[Any]

LONG = 1024  # queries from which on the rows are summed up as a whole, too
BINS = 24  # of a histogram
STRETCHES = 48  # of the positions
SINKS = 5  # keys that receive most


def is_long(inputs: AttentionInputs) -> bool:
    """Whether a run has so many rows that they are also looked at as a whole."""
    return inputs.shape[2] >= LONG


def spread(
    inputs: AttentionInputs,
    trace: Trace,
    selection: Selection,
    unusual: tuple[ShownRow, ...],
) -> Spread:
    """Every chosen head as a whole, over all its queries; `unusual` are its most unusual rows."""
    entropy = _histograms(trace.stats["entropy"])
    far = _histograms(trace.stats["mean_distance"]) if inputs.q_offset is not None else None
    return Spread(
        heads=tuple(
            HeadSpread(
                batch=batch,
                head=head,
                entropy=_distribution(trace.stats["entropy"][batch, head], entropy),
                distance=None
                if far is None
                else _distribution(trace.stats["mean_distance"][batch, head], far),
                by_position=_by_position(trace, batch, head),
                sinks=_sinks(inputs, trace, batch, head),
            )
            for batch, head in selection.pairs
        ),
        unusual=unusual,
    )


def _histograms(values: Array) -> Array:
    """The edges of the bins, those of every head: from 0 to the largest number."""
    largest = values.max(where=np.isfinite(values), initial=0.0)
    return np.linspace(0.0, float(largest) or 1.0, BINS + 1)


def _distribution(values: Array, edges: Array) -> Distribution:
    defined = values[np.isfinite(values)].astype(np.float64)
    none = np.full(len(QUANTILES), np.nan)
    at = np.percentile(defined, QUANTILES) if defined.size else none
    counts, _ = np.histogram(defined, edges)
    return Distribution(
        rows=int(defined.size),
        quantiles=dict(zip(QUANTILES, at.tolist(), strict=True)),
        edges=tuple(edges.tolist()),
        counts=tuple(counts.tolist()),
    )


def _by_position(trace: Trace, batch: int, head: int) -> tuple[Stretch, ...]:
    """The queries in stretches that are equally long, the last one perhaps shorter."""
    length = trace.empty.shape[-1]
    step = -(-length // STRETCHES)
    starts = np.arange(0, length, step)
    means = {
        name: _means(trace.stats[name][batch, head], starts)
        for name in ("entropy", "normalized_entropy", "mean_distance")
    }
    return tuple(
        Stretch(
            first=int(start),
            last=min(int(start) + step, length) - 1,
            **{name: float(values[place]) for name, values in means.items()},
        )
        for place, start in enumerate(starts)
    )


def _means(values: Array, starts: Array) -> Array:
    """The mean of what is defined from each start to the next; NaN where nothing is."""
    defined = np.isfinite(values)
    total = np.add.reduceat(np.where(defined, values, 0).astype(np.float64), starts)
    number = np.add.reduceat(defined.astype(np.int64), starts)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def _sinks(inputs: AttentionInputs, trace: Trace, batch: int, head: int) -> tuple[TopKey, ...]:
    """The keys that receive most, the earlier first among equals; none where NaN took part."""
    assert trace.received is not None
    received = trace.received[batch, head]
    total = float(received.sum())
    if not np.isfinite(total) or total <= 0:
        return ()
    best = np.argsort(-received, kind="stable")[:SINKS]
    return tuple(
        TopKey(key, token_of(inputs, batch, key), float(received[key]) / total)
        for key in best.tolist()
        if received[key] > 0
    )
