"""random: distinct keys, all sets alike, and the same numbers for ever."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import comb

import numpy as np
import pytest

from attn_cli.core.masks import MaskContext, TileKind, evaluate
from attn_cli.errors import InputError
from attn_cli.masks.expression import parse
from attn_cli.masks.random import Random

WORD = 2**64


def splitmix(word: int) -> int:
    """splitmix64's output function in whole numbers of any size."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % WORD
    return word ^ (word >> 31)


def keys_of(size: int, seed: int, keys: int, query: int) -> set[int]:
    """Floyd's sampling for one query, without numpy."""
    state = splitmix((splitmix(seed) + query) % WORD)
    chosen: set[int] = set()
    for draw, last in enumerate(range(keys - size, keys), start=1):
        key = splitmix((state + draw * 0x9E3779B97F4A7C15) % WORD) % (last + 1)
        chosen.add(last if key in chosen else key)
    return chosen


def test_the_hash_is_the_published_one() -> None:
    # The first outputs of splitmix64 for the seed 1234567, as its test vectors give them.
    step = 0x9E3779B97F4A7C15
    first = [splitmix((1234567 + i * step) % WORD) for i in (1, 2, 3)]
    assert first == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize(
    "size, keys", [(0, 5), (1, 1), (2, 8), (5, 12), (6, 12), (9, 12), (12, 12)]
)
@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_against_the_same_thing_in_plain_python(size: int, keys: int, seed: int) -> None:
    context = MaskContext(batch=2, heads=2, queries=20, keys=keys, q_offset=-4)
    mask = parse(f"random({size}, seed={seed})").build(context)
    seen = evaluate(mask, batch=2, heads=2, queries=range(-4, 16), keys=range(keys))
    few = min(size, keys - size)
    for row, query in enumerate(range(-4, 16)):
        drawn = keys_of(few, seed, keys, query)
        expected = drawn if size == few else set(range(keys)) - drawn
        assert len(expected) == size
        assert set(np.flatnonzero(seen[1, 1, row])) == expected
    np.testing.assert_array_equal(seen, np.broadcast_to(seen[0, 0], seen.shape))


def test_the_numbers_never_move() -> None:
    drawn = np.sort(Random(3, seed=7, keys=1000).drawn(np.arange(3)), axis=0)
    pinned = [[187, 217, 494], [491, 684, 956], [110, 496, 878]]
    np.testing.assert_array_equal(drawn.T, pinned)
    assert [sorted(keys_of(3, 7, 1000, query)) for query in range(3)] == pinned


@pytest.mark.parametrize("size", [3, 120])  # searched in what is drawn, and in a table
def test_many_queries_are_drawn_as_one_by_one(size: int) -> None:
    mask = Random(size, seed=2, keys=10_000)
    together = mask.drawn(np.arange(5_000))  # in several pieces
    for query in (0, 1, 2_499, 2_500, 4_999):
        assert set(together[:, query]) == keys_of(size, 2, 10_000, query)


def test_every_set_of_keys_is_equally_likely() -> None:
    queries = 30_000
    drawn = np.sort(Random(2, seed=3, keys=6).drawn(np.arange(queries)), axis=0)
    counts = Counter(zip(*drawn.tolist(), strict=True))
    expected = queries / comb(6, 2)
    assert set(counts) == set(combinations(range(6), 2))
    # 14 degrees of freedom: chi-square exceeds 36.1 once in a thousand.
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 36.1


def test_a_tile_knows_where_the_keys_are() -> None:
    mask = Random(2, seed=0, keys=8)  # query 0 sees 2 and 4, query 1 sees 3 and 7
    assert mask.tile(0, 0, range(2), range(2)) is TileKind.EMPTY
    assert mask.tile(0, 0, range(1), range(4, 5)) is TileKind.FULL
    assert mask.tile(0, 0, range(2), range(4, 5)) is TileKind.MIXED


def test_more_keys_than_there_are() -> None:
    with pytest.raises(InputError, match="9 distinct keys, and there are 8"):
        parse("random(9)").build(MaskContext(batch=1, heads=1, queries=1, keys=8))
