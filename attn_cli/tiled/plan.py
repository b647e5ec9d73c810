"""Which tiles of keys a block of queries meets, and what the mask lets through in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attn_cli.core.masks import TileKind

Kind = Callable[[range, range], TileKind]  # of queries × keys


def tiles(kind: Kind | None, queries: range, keys: int, width: int) -> Iterator[tuple[range, bool]]:
    """The tiles of at most `width` keys that are not empty, in order, and whether each is full.

    A stretch of keys is asked about whole and halved only where it is mixed, so a window over n
    keys costs ln n questions and not n ÷ `width`.

    >>> list(tiles(None, range(2), 5, 4))
    [(range(0, 4), True), (range(4, 5), True)]
    """
    if kind is None:
        yield from ((tile, True) for tile in _cut(range(keys), width))
    else:
        yield from _tiles(kind, queries, range(keys), width)


def _tiles(kind: Kind, queries: range, keys: range, width: int) -> Iterator[tuple[range, bool]]:
    found = kind(queries, keys)
    if found is TileKind.EMPTY:
        return
    if found is TileKind.FULL:
        yield from ((tile, True) for tile in _cut(keys, width))
    elif len(keys) <= width:
        yield _trimmed(kind, queries, keys), False
    else:
        several = -(-len(keys) // width)
        middle = keys.start + several // 2 * width
        yield from _tiles(kind, queries, range(keys.start, middle), width)
        yield from _tiles(kind, queries, range(middle, keys.stop), width)


def _trimmed(kind: Kind, queries: range, keys: range) -> range:
    """A mixed tile without the half, if one is empty, as the tiles on a diagonal have it."""
    middle = keys.start + (len(keys) + 1) // 2
    first, second = range(keys.start, middle), range(middle, keys.stop)
    if second and kind(queries, second) is TileKind.EMPTY:
        return first
    return second if second and kind(queries, first) is TileKind.EMPTY else keys


def _cut(keys: range, width: int) -> Iterator[range]:
    for start in range(keys.start, keys.stop, width):
        yield range(start, min(start + width, keys.stop))
