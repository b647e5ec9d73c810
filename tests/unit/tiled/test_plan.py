"""The plan of tiles: what is not empty is covered once, in order, with few questions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.core.masks import TileKind
from attn_cli.masks.base import And
from attn_cli.masks.causal import Causal
from attn_cli.masks.window import Window
from attn_cli.tiled.plan import Kind, tiles


def kind_of(size: int) -> Kind:
    mask = And((Causal(), Window(size)))
    return lambda queries, keys: mask.tile(0, 0, queries, keys)


@given(
    start=st.integers(0, 60),
    height=st.integers(1, 9),
    keys=st.integers(1, 70),
    width=st.integers(1, 80),
    size=st.integers(1, 40),
)
def test_every_visible_key_lies_in_one_tile_and_full_tiles_hide_none(
    start: int, height: int, keys: int, width: int, size: int
) -> None:
    queries = range(start, start + height)
    found = list(tiles(kind_of(size), queries, keys, width))
    covered = [key for tile, _ in found for key in tile]
    assert covered == sorted(set(covered))
    seen = {(q, k) for q in queries for k in range(keys) if q - size < k <= q}
    assert {k for _, k in seen} <= set(covered)
    for tile, full in found:
        assert 0 < len(tile) <= width
        assert not full or all((q, k) in seen for q in queries for k in tile)


def test_a_window_over_many_keys_takes_few_questions() -> None:
    asked = []
    near = kind_of(1024)

    def kind(queries: range, keys: range) -> TileKind:
        asked.append(keys)
        return near(queries, keys)

    found = list(tiles(kind, range(100_096, 100_352), 131_072, 512))
    assert sum(len(tile) for tile, _ in found) <= 1024 + 256 + 2 * 512
    assert len(asked) < 40  # of 256 tiles


@pytest.mark.parametrize("keys, width", [(5, 4), (4, 4), (1, 9), (9, 1)])
def test_without_a_mask_all_tiles_are_full(keys: int, width: int) -> None:
    found = list(tiles(None, range(3), keys, width))
    assert [key for tile, _ in found for key in tile] == list(range(keys))
    assert all(full for _, full in found)


def test_a_diagonal_tile_loses_its_empty_half() -> None:
    causal: Kind = lambda queries, keys: Causal().tile(0, 0, queries, keys)  # noqa: E731
    assert list(tiles(causal, range(4), 8, 8)) == [(range(4), False)]
    assert list(tiles(causal, range(4, 8), 8, 8)) == [(range(8), False)]
