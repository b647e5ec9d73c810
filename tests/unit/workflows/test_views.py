"""Views: weights as cells while they are few, as blocks of means beyond."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attn_cli.core.engine import Ask
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results import WeightsView
from attn_cli.engines import ENGINES
from attn_cli.workflows.selection import select
from attn_cli.workflows.views import CELLS, ViewBuilder, block_means, covers
from tests.agreement.holding import STEPWISE, run
from tests.agreement.samples import built, drawn


def views(
    inputs: AttentionInputs,
    *,
    engine: str = "numpy",
    items: tuple[int, ...] | None = None,
    heads: tuple[int, ...] | None = None,
    queries: tuple[int, ...] | None = None,
) -> list[WeightsView]:
    builder = ViewBuilder(inputs, select(inputs, items=items, heads=heads, queries=queries))
    ENGINES[engine].run(inputs, Ask(watch={"weights": [builder]}))
    return builder.views


@pytest.mark.parametrize("engine", STEPWISE)
def test_few_tokens_have_a_cell_each(engine: str) -> None:
    plain = drawn(1, batch=2)
    inputs = replace(plain, mask=built("causal", plain))
    drawn_views = views(inputs, engine=engine)
    assert [(v.batch, v.head) for v in drawn_views] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    weights = run(engine, inputs)["weights"]
    for view in drawn_views:
        np.testing.assert_array_equal(view.cells, weights[view.batch, view.head])
        np.testing.assert_array_equal(view.hidden, np.triu(np.ones((5, 5), bool), 1))
        np.testing.assert_allclose(view.sums, 1, rtol=1e-13)
        assert not view.blocks
        assert view.query_ranges == tuple(range(i, i + 1) for i in range(5))


def test_a_large_batch_is_not_searched_for_every_item() -> None:
    inputs = drawn(2, batch=3, heads=3)
    builder = ViewBuilder(inputs, select(inputs, items=(2, 0), heads=(1,), queries=None))
    assert builder.heads == {0: [1], 2: [1]}
    ENGINES["numpy"].run(inputs, Ask(watch={"weights": [builder]}))
    assert [(view.batch, view.head) for view in builder.views] == [(0, 1), (2, 1)]


def test_chosen_heads_and_queries_alone_are_drawn() -> None:
    inputs = drawn(2, batch=2, heads=3)
    (view,) = views(inputs, items=(1,), heads=(2,), queries=(1, 4))
    assert (view.batch, view.head) == (1, 2)
    np.testing.assert_array_equal(view.cells, run("numpy", inputs)["weights"][1, 2, [1, 4]])
    assert view.query_ranges == (range(1, 2), range(4, 5))


def test_many_tokens_become_blocks_of_means_over_visible_cells() -> None:
    plain = drawn(3, heads=1, queries=50, keys=60, q_offset=10)
    inputs = replace(plain, mask=built("causal", plain))
    (view,) = views(inputs)
    assert view.blocks
    assert view.cells.shape == (17, 20)  # 50 in threes, 60 in threes
    assert view.query_ranges[-1] == range(48, 50)
    weights, seen = run("numpy", inputs)["weights"][0, 0], inputs.keep()[0, 0]
    for r, rows in enumerate(view.query_ranges):
        for c, columns in enumerate(view.key_ranges):
            block = np.ix_(list(rows), list(columns))
            assert view.hidden[r, c] == (not seen[block].any())
            expected = weights[block][seen[block]].mean() if seen[block].any() else 0.0
            np.testing.assert_allclose(view.cells[r, c], expected, rtol=1e-12, atol=1e-16)
    assert np.isnan(view.sums).all()


def test_a_filled_key_is_hidden_in_the_picture() -> None:
    additive = np.zeros((5, 5))
    additive[:, 3] = -1e9
    first, _ = views(drawn(4, additive=additive))
    np.testing.assert_array_equal(first.hidden, np.tile([0, 0, 0, 1, 0], (5, 1)).astype(bool))


def test_nan_stays_in_its_own_block() -> None:
    weights = np.ones((4, 4))
    weights[0, 1] = np.nan
    pair = (range(2), range(2, 4))
    cells, hidden = block_means(weights, np.ones((4, 4), bool), pair, pair)
    np.testing.assert_array_equal(np.isnan(cells), [[True, False], [False, False]])
    assert not hidden.any()


@pytest.mark.parametrize("length", [1, 23, 24, 25, 48, 49, 1000, 4097])
def test_covers_leave_nothing_out(length: int) -> None:
    ranges = covers(length)
    assert [i for cover in ranges for i in cover] == list(range(length))
    assert len(ranges) <= CELLS
    assert len({len(cover) for cover in ranges[:-1]} | {len(ranges[0])}) == 1
    assert (len(ranges[0]) == 1) == (length <= CELLS)
