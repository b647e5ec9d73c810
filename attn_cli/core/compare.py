"""compare(a, b): one stage of two computations, element by element, with a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.rounding import precision

Array = NDArray[Any]
Verdict = Literal["identical", "rounding", "different"]
RANK: Sequence[Verdict] = ("identical", "rounding", "different")  # the worst last


@dataclass(frozen=True, slots=True)
class StageDiff:
    """How one stage of two computations differs.

    `max_abs` and `max_rel` (relative to the larger of the two) are over elements that are finite on
    both sides. `beyond` counts the elements outside the budget, those that are NaN or ±inf on one
    side alone (`nonfinite`) included. `where` is the worst element: the first `nonfinite` one, else
    the one farthest apart of those beyond, else of all; `ulps` and `budget` are measured there.
    Shapes that differ are `different`, with nothing compared.
    """

    verdict: Verdict
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    max_abs: float = 0.0
    max_rel: float = 0.0
    ulps: float = 0.0
    where: tuple[int, ...] = ()
    beyond: int = 0
    nonfinite: int = 0
    budget: float = 0.0


def compare(a: Array, b: Array, *, budget: Array | float, dtype: str) -> StageDiff:
    """Hold `a` against `b` element by element; `budget` broadcasts to their shape.

    NaN, +inf and −inf are compared as classes: equal only to themselves. Within the budget:
    `rounding`; bit-equal values: `identical` (+0 and −0 are equal). `dtype` names the precision in
    which ulps are counted.
    """
    if a.shape != b.shape:
        return StageDiff("different", (a.shape, b.shape))
    gap, other_class, size = apart(a, b)
    allowed = np.broadcast_to(budget, a.shape)
    if not (gap.any() or other_class.any()):
        return StageDiff("identical", (a.shape, b.shape))
    beyond = (gap > allowed) | other_class
    where = _worst(gap, beyond, other_class)
    return StageDiff(
        verdict="different" if beyond.any() else "rounding",
        shapes=(a.shape, b.shape),
        max_abs=float(gap.max()),
        max_rel=float((gap / np.where(size == 0, 1, size)).max()),
        ulps=float(gap[where] / precision(dtype).ulp(size[where])),
        where=where,
        beyond=int(beyond.sum()),
        nonfinite=int(other_class.sum()),
        budget=float(allowed[where]),
    )


def apart(a: Array, b: Array) -> tuple[Array, NDArray[np.bool_], Array]:
    """How far two arrays of one shape are apart, where their classes differ, and their size.

    The gap and the size, that of the larger of the two, are 0 where either is not finite.
    """
    a, b = a.astype(np.float64, copy=False), b.astype(np.float64, copy=False)
    both = np.isfinite(a) & np.isfinite(b)
    other_class = ~both & ~((a == b) | (np.isnan(a) & np.isnan(b)))
    left, right = np.where(both, a, 0), np.where(both, b, 0)
    with np.errstate(over="ignore"):  # largest numbers of opposite sign: the gap is inf
        gap = np.abs(left - right)
    return gap, other_class, np.maximum(np.abs(left, out=left), np.abs(right, out=right))


def _worst(
    gap: Array, beyond: NDArray[np.bool_], other_class: NDArray[np.bool_]
) -> tuple[int, ...]:
    """The element to look at first."""
    if other_class.any():
        flat = other_class.argmax()
    else:
        flat = np.where(beyond, gap, -1).argmax() if beyond.any() else gap.argmax()
    return tuple(int(i) for i in np.unravel_index(flat, gap.shape))
