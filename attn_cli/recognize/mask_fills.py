"""Fill values: what the numbers of an additive mask are called, and which of them hide."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.rounding import PRECISIONS, round_to

Array = NDArray[Any]

HIDES = -1e4  # entries at or below it are not counted as visible
MOST = 8  # different fills that are told apart
_POWERS = tuple(range(4, 39))


@dataclass(frozen=True, slots=True)
class Numbers:
    """The values of an additive mask. `fills` maps each value that hides to its name.

    `doubled` are fills that two masks of a smaller fill add up to; −inf is one where the other
    fill is so large. `weak` is the only value beside 0 where it is negative and does not hide;
    `positive` whether nothing is negative; `nan` and `inf` count what no mask should hold.
    """

    fills: dict[float, str]
    doubled: tuple[float, ...]
    weak: float | None
    positive: bool
    nan: int
    inf: int

    @property
    def finite(self) -> list[float]:
        return [value for value in self.fills if np.isfinite(value)]


def numbers_of(array: Array, dtype: str) -> Numbers:
    """What an additive mask is filled with; `dtype` is the precision that the file has."""
    nan, inf = np.isnan(array), np.isposinf(array)
    values = _distinct(array[~nan & ~inf])
    fills = values[values <= HIDES][::-1]
    others = values[values != 0]
    only = float(others[0]) if others.size == 1 else None
    return Numbers(
        fills={value: _name(value, dtype) for value in _few(fills).tolist()},
        doubled=tuple(_doubled(fills, dtype)),
        weak=only if only is not None and HIDES < only < 0 else None,
        positive=not (values < 0).any(),
        nan=int(nan.sum()),
        inf=int(inf.sum()),
    )


def hidden_by(array: Array, numbers: Numbers) -> NDArray[np.bool_]:
    """Where an additive mask hides, or is meant to by a fill that is too weak."""
    if numbers.weak is not None:
        return np.equal(array, numbers.weak)
    return np.less_equal(array, HIDES)


def _distinct(flat: Array) -> Array:
    """The values, ascending; the few of a plain mask are found without sorting millions."""
    found: list[float] = []
    while flat.size and len(found) < MOST:
        found.append(float(flat[0]))
        flat = flat[flat != flat[0]]
    return np.unique(np.concatenate([np.array(found, np.float64), flat]))


def _few(values: Array) -> Array:
    return values if values.size <= MOST else values[[0, -1]]


def _name(value: float, dtype: str) -> str:
    if np.isneginf(value):
        return "−inf"
    for known, name in _known(dtype):
        if value == known:
            return name
    return in_short(value)


def _doubled(fills: Array, dtype: str) -> Iterator[float]:
    """Fills that are twice a usual one which is there too."""
    usual = {known for known, _ in _known(dtype)}
    there = [value for value in _few(fills).tolist() if value in usual]
    twice = {_rounded(2 * value, dtype) for value in there}
    for value in _few(fills).tolist():
        if value in twice:
            yield value


def _known(dtype: str) -> Iterator[tuple[float, str]]:
    """The fills that people use, as the dtype rounds them."""
    for name in ("float16", "bfloat16", "float32", "float64"):
        least = _rounded(-PRECISIONS[name].largest, dtype)
        if np.isfinite(least):
            yield least, f"finfo({name}).min"
    for power in _POWERS:
        fill = _rounded(-(10.0**power), dtype)
        if np.isfinite(fill):
            yield fill, f"−1e{power}"


def in_short(value: float) -> str:
    """A number with as few digits as tell it from others.

    >>> in_short(-2e9), in_short(-100.0), in_short(-1000000001.0)
    ('−2e9', '−100', '−1000000001')
    """
    texts = [f"{value:.{digits}g}" for digits in (6, 10, 17)]
    text = next((text for text in texts if float(text) == value), texts[0])
    return re.sub(r"e\+?(-?)0*", r"e\1", text).replace("-", "−")


def _rounded(value: float, dtype: str) -> float:
    if dtype not in PRECISIONS or dtype.startswith("float8"):
        return value
    return float(round_to(np.array([value]), dtype)[0])
