"""Findings of an ablation: whether the weight that a token had tells how much hangs on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.findings import Finding, Place, note
from attn_cli.core.model_ablation import Ablation

Array = NDArray[Any]

FEWEST = 3  # layers; two can only agree or not


def ablation_findings(ablation: Ablation) -> Iterator[Finding]:
    """The layers in the order of the token's weight beside their order by what really moves."""
    layers = [
        layer
        for layer in ablation.layers
        if np.isfinite(layer.weight) and np.isfinite(layer.movement.moved)
    ]
    if len(layers) < FEWEST:
        return
    weights = [layer.weight for layer in layers]
    moved = [layer.movement.moved for layer in layers]
    most = layers[int(np.argmax(weights))]
    place = 1 + sum(each > most.movement.moved for each in moved)
    which = "most" if place == 1 else f"{ordinal(place)} most"
    yield note(
        "weight-and-effect",
        f"layer {most.layer} gives the token the most weight and its loss there moves the output "
        f"{which} of {len(layers)} layers; over the layers the ranks of weight and movement "
        f"correlate with {rank_correlation(weights, moved):+.2f}",
        Place(stage="weights", layer=most.layer),
    )


def ordinal(place: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th.

    >>> [ordinal(n) for n in (2, 3, 4, 11, 12, 21)]
    ['2nd', '3rd', '4th', '11th', '12th', '21st']
    """
    teen = 10 <= place % 100 <= 20
    return f"{place}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(place % 10, 'th')}"


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's: 1 where both put the layers in one order, -1 in the opposite; NaN if one is flat.

    >>> rank_correlation([0.1, 0.3, 0.2], [5.0, 9.0, 7.0])
    1.0
    """
    x, y = (_ranks(np.asarray(values)) for values in (a, b))
    x, y = x - x.mean(), y - y.mean()
    length = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / length if length else float("nan")


def _ranks(values: Array) -> Array:
    """Ranks from 0; equal values share the mean of theirs."""
    below = (values[:, None] > values).sum(1)
    equal = (values[:, None] == values).sum(1)
    return np.asarray(below + (equal - 1) / 2)
