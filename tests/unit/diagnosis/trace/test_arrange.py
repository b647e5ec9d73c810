"""Arrangements of axes, against NumPy's own transpose and reshape."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from attn_cli.diagnosis.trace.arrange import arranged, arrangements, named, scrambled

STAGE = np.arange(2 * 3 * 5 * 8.0).reshape(2, 3, 5, 8)  # batch, head, query, d
NAMES = ("batch", "head", "query", "d_v")


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_every_permutation_is_found_and_undone(order: tuple[int, ...]) -> None:
    turned = STAGE.transpose(order)
    assert order in arrangements(STAGE.shape, turned.shape)
    np.testing.assert_array_equal(arranged(turned, order, STAGE.shape), STAGE)
    assert named(order, STAGE.shape, NAMES, turned.shape) == tuple(NAMES[i] for i in order)


def test_heads_side_by_side_are_an_arrangement() -> None:
    merged = STAGE.transpose(0, 2, 1, 3).reshape(2, 5, 24)
    (order,) = arrangements(STAGE.shape, merged.shape)
    np.testing.assert_array_equal(arranged(merged, order, STAGE.shape), STAGE)
    assert named(order, STAGE.shape, NAMES, merged.shape) == ("batch", "query", "head·d_v")
    assert not scrambled(merged, STAGE, 0.0)


@pytest.mark.parametrize(
    "wrong",
    [
        STAGE.reshape(2, 5, 24),  # heads were not brought beside their features
        STAGE.transpose(0, 2, 3, 1).reshape(2, 5, 24),  # features of heads
        STAGE.transpose(0, 2, 1, 3).reshape(2, 3, 5, 8),  # split without a transpose
    ],
)
def test_the_same_numbers_in_a_wrong_order_are_scrambled(wrong: np.ndarray) -> None:
    assert scrambled(wrong, STAGE, 0.0)


def test_an_axis_that_is_only_split_is_not_scrambled() -> None:
    assert not scrambled(STAGE.reshape(2, 3, 5, 4, 2), STAGE, 0.0)
    assert not scrambled(STAGE.transpose(0, 3, 1, 2).reshape(2, 8, 15), STAGE, 0.0)


def test_other_numbers_are_not_scrambled() -> None:
    assert not scrambled(STAGE + 1, STAGE, 0.5)
    assert not scrambled(STAGE[:1], STAGE, 0.0)


def test_axes_of_one_are_left_out() -> None:
    orders = arrangements((1, 3, 5, 8), (3, 1, 5, 8))
    assert orders == ((0, 1, 2, 3),)
    assert named(orders[0], (1, 3, 5, 8), NAMES, (3, 1, 5, 8)) == ("head", "", "query", "d_v")


def test_items_and_heads_fold_either_way() -> None:
    folded = STAGE.transpose(1, 0, 2, 3).reshape(6, 5, 8)
    assert scrambled(folded, STAGE, 0.0)
    assert not scrambled(folded, STAGE, 0.0, folds=(0, 1))
    (order,) = arrangements(STAGE.shape, folded.shape)
    assert order == (0, 1, 2, 3)
    assert (1, 0, 2, 3) in arrangements(STAGE.shape, folded.shape, (0, 1))
