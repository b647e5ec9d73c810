"""Spans: many indices in few words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

SHOWN = 6  # stretches that are written out


def spans(indices: Iterable[int], shown: int = SHOWN) -> str:
    """Ascending indices with their stretches drawn together, and how many are left out.

    >>> spans([0, 1, 2, 5, 8, 9])
    '0–2, 5, 8–9'
    >>> spans(range(0, 20, 2), shown=3)
    '0, 2, 4 and 7 more'
    """
    stretches = list(_stretches(indices))
    words = [str(r.start) if len(r) == 1 else f"{r.start}–{r.stop - 1}" for r in stretches[:shown]]
    more = sum(map(len, stretches[shown:]))
    return ", ".join(words) + (f" and {more:,} more" if more else "")


def _stretches(indices: Iterable[int]) -> Iterator[range]:
    stretch = None
    for index in indices:
        if stretch is not None and index == stretch.stop:
            stretch = range(stretch.start, index + 1)
            continue
        if stretch is not None:
            yield stretch
        stretch = range(index, index + 1)
    if stretch is not None:
        yield stretch
