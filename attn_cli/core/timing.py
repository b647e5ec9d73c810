"""Timing: measurements that take turns, so that a machine that drifts falls on all alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

Name = TypeVar("Name")


def in_turn(
    calls: Mapping[Name, Callable[[], float | None]], *, rounds: int
) -> Iterator[tuple[Name, float]]:
    """What each call measures, one after the other, `rounds` times over.

    A call that gives None drops out and is not asked again.
    """
    left = dict(calls)
    for _ in range(rounds):
        for name, call in list(left.items()):
            taken = call()
            if taken is None:
                del left[name]
            else:
                yield name, taken


def median(runs: Sequence[float]) -> float:
    """The median; NaN of no runs."""
    return float(np.median(runs)) if len(runs) else math.nan


def spread(runs: Sequence[float]) -> float:
    """The interquartile range: how wide the middle half of the runs is; NaN of fewer than 2.

    >>> spread([1.0, 2.0, 3.0, 4.0, 100.0])
    2.0
    """
    if len(runs) < 2:
        return math.nan
    low, high = np.quantile(runs, [0.25, 0.75])
    return float(high - low)


def ratio(runs: Sequence[float], reference: Sequence[float]) -> float:
    """How many times the reference a run takes: the median of the ratios of each round.

    Both were measured within a moment of each other, so what slowed one slowed the other. NaN
    where no round has both.

    >>> ratio([2.0, 4.0, 8.0], [1.0, 2.0, 4.0])
    2.0
    """
    return median([run / other for run, other in zip(runs, reference, strict=False)])
