"""Top keys and the cosine between heads: what needs whole rows of weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attn_cli.core.rows import head_cosine, top_keys

Array = NDArray[Any]
NAN, INF = float("nan"), float("inf")


def softmax(masked: Array) -> Array:
    e = np.exp(masked - masked.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def test_the_best_come_first_and_ties_by_position() -> None:
    masked = np.array([[[1.0, 3.0, 2.0, 3.0, -1.0], [0.0, 0.0, 0.0, 0.0, 0.0]]])
    weights = softmax(masked)
    top = top_keys(masked, weights, None, 3)
    np.testing.assert_array_equal(top.keys, [[[1, 3, 2], [0, 1, 2]]])
    np.testing.assert_array_equal(top.weights[0, 0], weights[0, 0, [1, 3, 2]])


def test_they_are_the_sorted_weights() -> None:
    masked = np.random.default_rng(0).normal(size=(3, 4, 9))
    weights = softmax(masked)
    top = top_keys(masked, weights, None, 9)
    np.testing.assert_array_equal(top.keys, np.argsort(-masked, -1, kind="stable"))
    np.testing.assert_array_equal(top.weights, -np.sort(-weights, -1))


def test_hidden_keys_never_appear_and_what_is_missing_is_marked() -> None:
    visible = np.array([[[True, False, True], [False, False, False]]])
    masked = np.where(visible, [1.0, 9.0, 2.0], -INF)
    weights = np.where(visible, 0.5, 0.0)
    top = top_keys(masked, weights, visible, 3)
    np.testing.assert_array_equal(top.keys, [[[2, 0, -1], [-1, -1, -1]]])
    np.testing.assert_array_equal(top.weights, [[[0.5, 0.5, NAN], [NAN, NAN, NAN]]])


def test_a_visible_score_of_minus_inf_is_a_key_all_the_same() -> None:
    masked = np.array([[[-INF, 1.0, -INF]]])
    top = top_keys(masked, np.array([[[0.0, 1.0, 0.0]]]), np.ones((1, 1, 3), bool), 3)
    np.testing.assert_array_equal(top.keys, [[[1, 0, 2]]])


def test_nan_comes_last_and_inf_first() -> None:
    masked = np.array([[[NAN, -3.0, INF, 2.0]]])
    top = top_keys(masked, np.full((1, 1, 4), NAN), None, 4)
    np.testing.assert_array_equal(top.keys, [[[2, 3, 1, 0]]])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_precisions_keep_their_order(dtype: type) -> None:
    most = float(np.finfo(dtype).max)
    masked: Array = np.array([[[1.0, most, -most, 0.0]]], dtype)
    top = top_keys(masked, np.full((1, 1, 4), 0.25, dtype), None, 4)
    np.testing.assert_array_equal(top.keys, [[[1, 0, 3, 2]]])


def test_no_more_keys_than_there_are() -> None:
    assert top_keys(np.zeros((1, 2, 3)), np.zeros((1, 2, 3)), None, 5).keys.shape == (1, 2, 3)


def test_cosines_by_hand() -> None:
    """Rows (1, 0) and (.6, .4): cosine .6 / √.52; the second row is the same in both: 1."""
    weights = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.6, 0.4], [0.5, 0.5]]])
    cosine = head_cosine(weights, np.zeros((2, 2), bool))
    expected = (0.6 / 0.52**0.5 + 1) / 2
    np.testing.assert_allclose(cosine, [[1, expected], [expected, 1]], rtol=1e-15)


def test_rows_that_are_empty_in_either_head_are_left_out() -> None:
    weights = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]]])
    empty = np.array([[False, False], [True, False]])
    np.testing.assert_array_equal(head_cosine(weights, empty), 1)
    none_left = head_cosine(weights, np.array([[True, False], [False, True]]))
    np.testing.assert_array_equal(none_left, [[1, NAN], [NAN, NAN]])


@pytest.mark.parametrize("tiny", [0.0, 1e-300, 5e-324])
def test_what_a_sink_took_down_to_next_to_nothing(tiny: float) -> None:
    """Squares of such weights vanish; the cosine does not. Rows of 0 are left out."""
    weights = np.array([[[tiny, 0.0], [0.7, 0.1]], [[0.3, 0.0], [0.7, 0.1]]])
    cosine = head_cosine(weights, np.zeros((2, 2), bool))
    np.testing.assert_allclose(cosine, 1, rtol=1e-15)


def test_a_row_of_nan_makes_its_head_nan() -> None:
    weights = np.array([[[NAN, NAN]], [[0.5, 0.5]]])
    cosine = head_cosine(weights, np.zeros((2, 1), bool))
    np.testing.assert_allclose(cosine, [[NAN, NAN], [NAN, 1]], rtol=1e-15)


def test_rows_are_compared_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    weights, empty = rng.dirichlet(np.ones(5), size=(3, 11)), rng.random((3, 11)) < 0.2
    at_once = head_cosine(weights, empty)
    monkeypatch.setattr("attn_cli.core.rows.AT_ONCE", 4 * 3**2)
    np.testing.assert_allclose(head_cosine(weights, empty), at_once, rtol=1e-14)
    norms = np.linalg.norm(weights, axis=-1)
    both = ~(empty[0] | empty[2])
    by_row = (weights[0] * weights[2]).sum(-1) / (norms[0] * norms[2])
    np.testing.assert_allclose(at_once[0, 2], by_row[both].mean(), rtol=1e-14)
