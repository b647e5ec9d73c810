"""Families: which known masks could an array be? Each looks at it and writes down its guess."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Seen = NDArray[np.bool_]  # (L, S), True = visible
Family = Callable[[Seen, int], Iterator[str]]

SEEDS = 64  # of random masks that are tried
CERTAIN = 20  # bits; smaller masks are equal to one of the draws too easily
GLOBALS = 32  # positions that see all; more are a pattern of another kind
DOCUMENTS = 2000  # as many fit into an expression


def guesses(seen: Seen, offset: int) -> Iterator[str]:
    """Expressions that the array may be equal to if query 0 stands at `offset`, simplest first.

    They are guesses: whoever asks compares.
    """
    yield from _whole(seen, offset)
    keys = np.asarray(seen.any(0))
    if keys.any() and not keys.all():
        visible = np.flatnonzero(keys)
        first, last = int(visible[0]), int(visible[-1]) + 1
        if last < seen.shape[1]:
            for text in _whole(seen[:, :last], offset):
                yield _and(text, f"padding({last})")
        if first > 0:
            for text in _whole(seen[:, first:], offset - first):
                yield _and(text, f"~sink({first})")


def _whole(seen: Seen, offset: int) -> Iterator[str]:
    for family in FAMILIES:
        yield from family(seen, offset)


def _rows_alike(seen: Seen, offset: int) -> Iterator[str]:
    row = seen[0]
    if not (seen == row).all():
        return
    count = int(row.sum())
    if count == row.size:
        yield "none"
    elif count and row[:count].all():
        yield f"padding({count})"


def _diagonals(seen: Seen, offset: int) -> Iterator[str]:
    """Masks that depend on q − k alone."""
    if not (seen[1:, 1:] == seen[:-1, :-1]).all():
        return
    queries, keys = seen.shape
    from_row = offset - np.flatnonzero(seen[0])  # q − k of what the first query sees
    from_column = offset + np.flatnonzero(seen[:, 0])
    distances = np.unique(np.concatenate([from_row, from_column]))
    if not distances.size:
        return
    least, most = int(distances[0]), int(distances[-1])
    farthest, nearest = offset + queries - 1, offset - keys + 1
    steps = np.unique(np.diff(distances))
    if steps.size == 0 or steps.tolist() == [1]:
        if most == farthest:
            yield "causal"
        yield f"window({max(most + 1, 1)})"
        if nearest < least and most < farthest:  # else only one of its edges shows
            yield f"window({max(most, 0) + 1}, both)"
    elif steps.size == 1 and queries > 1:
        yield f"dilated({distances.size}, {steps[0]})"


def _prefix(seen: Seen, offset: int) -> Iterator[str]:
    size = _leading(seen[0])
    if size > 0:
        yield f"prefix({size})"


def _sink_and_window(seen: Seen, offset: int) -> Iterator[str]:
    last = seen[-1]
    own = min(offset + seen.shape[0] - 1, seen.shape[1] - 1)
    if own < 0 or not last[own]:
        return
    size, sinks = _leading(last[own::-1]), _leading(last)
    if 0 < sinks < seen.shape[1]:
        yield f"causal & (window({size}) | sink({sinks}))"
        yield f"window({size}) | sink({sinks})"
        yield f"window({size}, both) | sink({sinks})"


def _blocks(seen: Seen, offset: int) -> Iterator[str]:
    size = int(seen.sum(1).max())
    if 0 < size < seen.shape[1]:
        yield f"block({size})"
        yield f"causal & block({size})"


def _documents(seen: Seen, offset: int) -> Iterator[str]:
    """A new document begins where a query does not see the key before its own."""
    queries, keys = seen.shape
    if offset != 0 or queries != keys or queries < 2:
        return
    starts = np.flatnonzero(~np.diagonal(seen, -1)) + 1
    if 0 < starts.size < DOCUMENTS:
        bounds = [0, *starts.tolist(), keys]
        lengths = ", ".join(str(size) for size in np.diff(bounds).tolist())
        yield f"documents({lengths})"
        yield f"causal & documents({lengths})"


def _globals(seen: Seen, offset: int) -> Iterator[str]:
    """Rows and columns that are full, and what is left of the others."""
    queries, keys = seen.shape
    if queries != keys:
        return  # a token is both a query and a key
    columns, rows = set(np.flatnonzero(seen.all(0))), set(np.flatnonzero(seen.all(1)) + offset)
    positions = sorted(columns & rows)
    if not 0 < len(positions) <= GLOBALS or len(rows) == queries:
        return
    text = f"global({', '.join(map(str, positions))})"
    yield text
    others = [query for query in range(queries) if query + offset not in rows]
    middle = others[len(others) // 2]
    own = middle + offset
    if 0 <= own < keys and seen[middle, own]:
        for size in {_leading(seen[middle, own::-1]), _leading(seen[middle, own:])}:
            yield f"window({size}, both) | {text}"
            yield f"window({size}) | {text}"


def _random(seen: Seen, offset: int) -> Iterator[str]:
    counts = seen.sum(1)
    size = int(counts[0])
    if 0 < size < seen.shape[1] and (counts == size).all() and _bits(seen, size) > CERTAIN:
        for seed in range(SEEDS):
            yield f"random({size}, seed={seed})"


FAMILIES: tuple[Family, ...] = (
    _rows_alike,
    _diagonals,
    _prefix,
    _sink_and_window,
    _blocks,
    _documents,
    _globals,
    _random,
)


def _bits(seen: Seen, size: int) -> float:
    """How unlikely it is that rows of so many keys are equal to some draw by chance."""
    queries, keys = seen.shape
    ways = math.lgamma(keys + 1) - math.lgamma(size + 1) - math.lgamma(keys - size + 1)
    return float(queries * ways / math.log(2))


def _leading(row: Seen) -> int:
    """How many True a row begins with."""
    return int(row.size if row.all() else row.argmin())


def _and(text: str, keys: str) -> str:
    if text == "none":
        return keys
    return f"({text}) & {keys}" if "|" in text else f"{text} & {keys}"
