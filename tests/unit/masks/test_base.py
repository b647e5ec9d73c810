"""And, Or, Not: what they see, and what they say of a tile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from attn_cli.core.masks import BoolArray, IntArray, Mask, TileKind, evaluate
from attn_cli.masks.base import And, Not, Or, band_tile, classify, distances

E, F, M = TileKind.EMPTY, TileKind.FULL, TileKind.MIXED


@dataclass(frozen=True)
class Says:
    """A mask whose tile is of one kind; it must not be asked where the answer is known."""

    kind: TileKind | None

    def __call__(self, b: IntArray, h: IntArray, q_pos: IntArray, k_pos: IntArray) -> BoolArray:
        raise AssertionError("a tile never evaluates the mask")

    def tile(self, b: int, h: int, queries: range, keys: range) -> TileKind:
        assert self.kind is not None, "the parts before it settle the answer"
        return self.kind


@dataclass(frozen=True)
class Bit:
    """True where this bit of the key's number is set."""

    bit: int

    def __call__(self, b: IntArray, h: IntArray, q_pos: IntArray, k_pos: IntArray) -> BoolArray:
        seen: BoolArray = (k_pos >> self.bit) % 2 == 1
        return seen

    def tile(self, b: int, h: int, queries: range, keys: range) -> TileKind:
        return TileKind.MIXED


@pytest.mark.parametrize(
    "kinds, both, either",
    [
        ((E, E), E, E), ((E, F), E, F), ((E, M), E, M),
        ((F, E), E, F), ((F, F), F, F), ((F, M), M, F),
        ((M, E), E, M), ((M, F), M, F), ((M, M), M, M),
        ((F, F, F), F, F), ((F, M, E), E, F),
    ],
)  # fmt: skip
def test_kinds_combine(kinds: tuple[TileKind, ...], both: TileKind, either: TileKind) -> None:
    parts = tuple(Says(kind) for kind in kinds)
    assert And(parts).tile(0, 0, range(1), range(1)) is both
    assert Or(parts).tile(0, 0, range(1), range(1)) is either


@pytest.mark.parametrize("kind, opposite", [(E, F), (F, E), (M, M)])
def test_not_turns_the_kind_round(kind: TileKind, opposite: TileKind) -> None:
    assert Not(Says(kind)).tile(0, 0, range(1), range(1)) is opposite


def test_the_first_answer_that_settles_it_is_enough() -> None:
    assert And((Says(E), Says(None))).tile(0, 0, range(1), range(1)) is E
    assert Or((Says(F), Says(None))).tile(0, 0, range(1), range(1)) is F


def test_what_they_see_is_the_truth_table() -> None:
    one, two = Bit(0), Bit(1)  # keys 0 … 3 go through all four cases
    table: list[tuple[Mask, list[bool]]] = [
        (And((one, two)), [False, False, False, True]),
        (Or((one, two)), [False, True, True, True]),
        (Not(one), [True, False, True, False]),
    ]
    for mask, expected in table:
        seen = evaluate(mask, batch=1, heads=1, queries=range(1), keys=range(4))
        np.testing.assert_array_equal(seen[0, 0, 0], expected)


def test_distances_are_those_of_the_corners() -> None:
    assert distances(range(2, 5), range(1, 4)) == (-1, 3)


@pytest.mark.parametrize(
    "least, most, kind",
    [(-1, 3, F), (0, 3, M), (-1, 2, M), (3, 9, M), (4, 9, E), (-9, -2, E), (-9, -1, M)],
)
def test_a_band_is_empty_full_or_mixed(least: int, most: int, kind: TileKind) -> None:
    assert band_tile(range(2, 5), range(1, 4), least=least, most=most) is kind


def test_empty_wins_where_a_tile_has_nothing() -> None:
    assert classify(empty=True, full=True) is E
