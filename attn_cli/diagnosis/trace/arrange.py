"""Arrangements: an array that is another one with its axes permuted, and neighbours merged."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Order = tuple[int, ...]


@lru_cache(maxsize=4096)  # the same few shapes come again and again
def arrangements(
    axes: tuple[int, ...], shape: tuple[int, ...], folds: tuple[int, ...] = ()
) -> tuple[Order, ...]:
    """The orders of all `axes` (sizes) in which merging neighbours gives `shape`.

    Axes of size 1 are left out of either side; the identity comes first where it fits. Neighbours
    merge in their own order, those in `folds` (places in `axes`) in any: heads side by side in
    the width are heads of features, not features of heads, but items and heads fold either way.

    >>> arrangements((2, 3, 5), (5, 6))
    ((2, 0, 1),)
    >>> arrangements((2, 3, 5), (5, 6), folds=(0, 1))
    ((2, 0, 1), (2, 1, 0))
    """
    if math.prod(axes) != math.prod(shape):
        return ()
    return tuple(_orders(axes, shape, folds))


def _orders(
    axes: tuple[int, ...], shape: tuple[int, ...], folds: tuple[int, ...]
) -> Iterator[Order]:
    long = [axis for axis, size in enumerate(axes) if size != 1]
    ones = [axis for axis, size in enumerate(axes) if size == 1]
    wanted = _ends([size for size in shape if size != 1])
    for order in permutations(long):
        ends = _ends([axes[axis] for axis in order])
        if wanted <= ends and _in_order(order, axes, wanted, folds):
            yield (*ones, *order)


def _in_order(order: Order, axes: Sequence[int], ends: set[int], folds: Sequence[int]) -> bool:
    """Whether neighbours that no end keeps apart stand in their own order, or may fold."""
    return all(
        low < high or (low in folds and high in folds)
        for n, (low, high) in enumerate(pairwise(order))
        if math.prod(axes[axis] for axis in order[: n + 1]) not in ends
    )


def _ends(sizes: Sequence[int]) -> set[int]:
    """The products of the first one, two, … sizes: where an axis ends."""
    return {math.prod(sizes[: n + 1]) for n in range(len(sizes))}


def arranged(array: Array, order: Order, axes: Sequence[int]) -> Array:
    """`array`, which is `axes` in that order and merged, as `axes` again."""
    permuted = array.reshape([axes[axis] for axis in order])
    return permuted.transpose(np.argsort(order))


def named(order: Order, axes: Sequence[int], names: Sequence[str], shape: Sequence[int]) -> Names:
    """The name of every axis of `shape`: merged ones with a dot between, "" where its size is 1."""
    waiting = [axis for axis in order if axes[axis] != 1]
    found = []
    for size in shape:
        parts: list[int] = []
        while size != 1 and math.prod(axes[axis] for axis in parts) < size:
            parts.append(waiting.pop(0))
        found.append("·".join(names[axis] for axis in parts))
    return tuple(found)


Names = tuple[str, ...]


def scrambled(array: Array, stage: Array, tolerance: float, folds: Sequence[int] = ()) -> bool:
    """Whether both hold the same numbers, and no arrangement makes them equal.

    An axis that is merely split into several is an arrangement.
    """
    if array.size != stage.size or array.size < 2:
        return False
    one, other = np.sort(array, axis=None), np.sort(stage, axis=None)
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        return False
    if np.abs(one - other).max() > tolerance:
        return False
    flat = array.reshape(-1)
    long = [axis for axis, size in enumerate(stage.shape) if size != 1]
    ends = _ends([size for size in array.shape if size != 1])
    for order in permutations(long):
        sizes = [stage.shape[axis] for axis in order]
        same = np.abs(np.squeeze(stage).transpose(_ranks(order)).reshape(-1) - flat).max()
        if same > tolerance:
            continue
        if _nested(ends, _ends(sizes)) and _in_order(order, stage.shape, ends, folds):
            return False
    return True


def _ranks(order: Sequence[int]) -> list[int]:
    """The order among the axes that are left when those of size 1 are dropped."""
    left = sorted(order)
    return [left.index(axis) for axis in order]


def _nested(one: set[int], other: set[int]) -> bool:
    """Whether between any two common ends at most one side has further ends."""
    common = sorted(one & other)
    for low, high in zip([1, *common], common, strict=False):
        inner = [any(low < end < high for end in ends) for ends in (one, other)]
        if all(inner):
            return False
    return True
