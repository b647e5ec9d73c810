"""Counting by tiles gives what counting one by one gives."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from attn_cli.core.masks import MaskContext, evaluate
from attn_cli.masks import counting
from attn_cli.masks.counting import Allowance, Counter, TooMuch, spread_rows
from attn_cli.masks.expression import parse

TEXTS = [
    "none",
    "causal",
    "window(7)",
    "window(5, both)",
    "dilated(3, 4)",
    "sink(3) | causal & block(6)",
    "~(causal & window(9)) & documents(20, 50)",
    "global(0, 33) | random(2, seed=1)",
]


def ranges(*bounds: int) -> tuple[range, ...]:
    return tuple(range(a, b) for a, b in pairwise(bounds))


@pytest.mark.parametrize("offset", [-3, 0, 20])
@pytest.mark.parametrize("text", TEXTS)
def test_tiles_and_pairs_count_the_same(
    text: str, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "DENSE", 0)
    monkeypatch.setattr(counting, "LEAF", 20)
    mask = parse(text).build(MaskContext(1, 1, 50, 70, offset))
    whole = evaluate(mask, batch=1, heads=1, queries=range(offset, offset + 50), keys=range(70))[
        0, 0
    ]
    rows, columns = ranges(0, 13, 30, 50), ranges(0, 40, 41, 70)
    cells = [[whole[r.start : r.stop, c.start : c.stop].sum() for c in columns] for r in rows]
    for scattered in (False, True):
        tally = Counter(mask, 0, 0, offset, scattered).tally(rows, columns)
        np.testing.assert_array_equal(tally.keys, whole.sum(1))
        np.testing.assert_array_equal(tally.cells, cells)
        some = np.array([0, 12, 13, 31, 49])
        part = Counter(mask, 0, 0, offset, scattered).sampled(some, rows, columns)
        np.testing.assert_array_equal(part.rows, some)
        np.testing.assert_array_equal(part.keys, whole.sum(1)[some])
        assert part.cells.sum() == whole[some].sum()
        np.testing.assert_array_equal(part.cells[1].sum(), whole[13].sum())


@pytest.mark.parametrize(
    "text, pairs",
    [
        ("causal", 50_005_000),
        ("window(512)", 4_989_184),
        ("window(513, both)", 9_987_344),
        ("none", 100_000_000),
    ],
)
def test_known_numbers_of_pairs(text: str, pairs: int) -> None:
    mask = parse(text).build(MaskContext(1, 1, 10_000, 10_000))
    assert Counter(mask, 0, 0, 0).total(range(10_000), range(10_000)) == pairs


def test_a_window_over_a_hundred_thousand_keys() -> None:
    n, w = 100_000, 1000
    mask = parse(f"window({w})").build(MaskContext(1, 1, n, n))
    tally = Counter(mask, 0, 0, 0).tally([range(n)], [range(n)])
    np.testing.assert_array_equal(tally.keys, np.minimum(np.arange(n) + 1, w))


def test_too_much_work_is_refused() -> None:
    mask = parse("random(2)").build(MaskContext(1, 1, 10_000, 10_000))
    with pytest.raises(TooMuch):
        Counter(mask, 0, 0, 0, True, Allowance(1000)).total(range(10_000), range(10_000))


def test_spread_rows_reach_every_range() -> None:
    some = ranges(0, 3, 100, 1000)
    rows = spread_rows(some, 5)
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert [int(np.isin(rows, r).sum()) for r in some] == [3, 5, 5]
    assert len(set(np.diff(rows[-5:]).tolist())) > 1, "even steps would miss what is periodic"
