"""Queries and keys of different number, in both alignments."""

from __future__ import annotations

from collections.abc import Iterator

from attn_cli.checks.edges.case import Case
from attn_cli.checks.edges.making import Align, Making, Sizes, masked

ALIGNS: tuple[Align, ...] = ("upper-left", "lower-right")
MEANS = {
    "upper-left": "query 0 stands at key 0",
    "lower-right": "the last query stands at the last key",
}
TEXTS = {"causal": "causal", "window": "window(3)", "prefix": "prefix(2)"}


def more_keys(make: Making) -> Iterator[Case]:
    """More keys than queries (a cache, another sequence), beginnings or ends together."""
    yield from _unmasked(make, {"cross": (5, 7), "one-query": (1, 9), "many": (3, 130)})
    yield from _aligned(make, {"5-7": (5, 7), "1-6": (1, 6), "4-11": (4, 11)})


def more_queries(make: Making) -> Iterator[Case]:
    """More queries than keys, beginnings or ends together; the first may see nothing."""
    yield from _unmasked(make, {"cross": (9, 7), "two-keys": (9, 2), "many": (130, 3)})
    yield from _aligned(make, {"9-7": (9, 7), "6-5": (6, 5), "11-3": (11, 3)})


def _unmasked(make: Making, sizes: dict[str, tuple[int, int]]) -> Iterator[Case]:
    for name, (queries, keys) in sizes.items():
        inputs = make.question(name, **_others(queries, keys), queries=queries, keys=keys)
        asks = f"{queries} queries look at {keys} keys: weights are ({queries}, {keys})"
        yield make.case(name, asks, inputs)


def _aligned(make: Making, sizes: dict[str, tuple[int, int]]) -> Iterator[Case]:
    for short, (queries, keys) in sizes.items():
        for align in ALIGNS:
            for mask in TEXTS if short in ("5-7", "9-7") else ("causal",):
                name = f"{mask}-{align}-{short}"
                plain = make.question(
                    name, **_others(queries, keys), queries=queries, keys=keys, align=align
                )
                asks = f"{queries} queries, {keys} keys, {align}: {MEANS[align]}"
                yield make.case(name, asks, masked(plain, TEXTS[mask]), mask=TEXTS[mask])


def _others(queries: int, keys: int) -> Sizes:
    """Sizes of the other axes that are neither of these."""
    free = [size for size in range(2, 16) if size not in (queries, keys)]
    return dict(zip(("batch", "heads", "d_v", "d_k"), free, strict=False))
