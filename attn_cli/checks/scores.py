"""Findings about scores: overflow of the file's precision, and a spread that shows the scale."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.checks.places import axes_of, place_in_words
from attn_cli.core.engine import Seen
from attn_cli.core.findings import Finding, Place, note
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.rounding import precision

UNIT_VARIANCE = (0.5, 2.0)  # q and k count as about unit variance within these
FEW = 64  # fewer scores than this say nothing about their spread
OFF = 2.0  # a spread is off when it is this many times too large or too small


@dataclass(slots=True)
class ScoreWatch:
    """Watches q·kᵀ go by: its moments over visible keys, and what is beyond `limit`."""

    limit: float
    number: int = 0
    total: float = 0.0
    squares: float = 0.0
    beyond: int = 0
    largest: float = 0.0
    where: tuple[int, int, int, int] = (0, 0, 0, 0)

    def __call__(self, stage: Seen) -> None:
        scores = (
            np.abs(stage.array)
            if stage.visible is None
            else np.where(stage.visible, np.abs(stage.array), 0)
        )
        finite = np.isfinite(scores)
        over = finite & (scores > self.limit)
        peak = np.where(finite, scores, -1)
        if peak.max() > self.largest:
            head, query, key = (int(i) for i in np.unravel_index(peak.argmax(), peak.shape))
            self.largest, self.where = float(peak.max()), (stage.batch, head, query, key)
        self.beyond += int(over.sum())
        self._add(stage.array[finite if stage.visible is None else finite & stage.visible])

    def _add(self, values: NDArray[Any]) -> None:
        wide = values.astype(np.float64)
        self.number += wide.size
        with np.errstate(over="ignore", invalid="ignore"):  # then they say nothing of a spread
            self.total += float(wide.sum())
            self.squares += float((wide * wide).sum())

    @property
    def deviation(self) -> float:
        """The standard deviation of the scores seen."""
        mean = self.total / self.number
        return math.sqrt(max(self.squares / self.number - mean * mean, 0.0))


def score_findings(
    inputs: AttentionInputs, watch: ScoreWatch, *, file_precision: str
) -> Iterator[Finding]:
    """Overflow of the file's precision at q·kᵀ, and a scale that looks missing or doubled."""
    if watch.beyond and not file_precision.startswith("float8"):  # its products are kept wider
        limit = precision(file_precision).largest
        place = place_in_words(inputs, "scores", watch.where)
        yield Finding(
            f"{file_precision}-overflow",
            "warning",
            f"in the file's own {file_precision}, {watch.beyond:,} of {watch.number:,} scores "
            f"q · k would overflow to inf: the largest is {watch.largest:.6g} at {place}, limit "
            f"{limit:.6g}; scale q before the product",
            Place(stage="scores", layer=0, **axes_of("scores", watch.where)),
        )
    yield from _spread(inputs, watch)


def _spread(inputs: AttentionInputs, watch: ScoreWatch) -> Iterator[Finding]:
    d_k = inputs.q.shape[-1]
    if watch.number < FEW or d_k < 2 * OFF * OFF or not _unit(inputs.q) or not _unit(inputs.k):
        return
    spread = watch.deviation * abs(inputs.effective_scale)
    expected = watch.deviation / math.sqrt(d_k)
    if not 1 / OFF < expected < OFF:  # q and k are not independent: no unit to measure by
        return
    if spread > OFF * expected and spread > OFF:
        yield note(
            "scale-missing",
            f"the scaled scores have standard deviation {spread:.2f} where q and k have about unit "
            f"variance: 1/√{d_k} would give {expected:.2f}. Is the scale missing?",
            Place(stage="scaled", layer=0),
        )
    elif spread < expected / OFF and spread < 1 / OFF:
        yield note(
            "scale-doubled",
            f"the scaled scores have standard deviation {spread:.3f} where q and k have about unit "
            f"variance: 1/√{d_k} would give {expected:.2f}. Is the scale applied twice?",
            Place(stage="scaled", layer=0),
        )


def _unit(array: NDArray[Any]) -> bool:
    low, high = UNIT_VARIANCE
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(low < array.astype(np.float64).var() < high)
