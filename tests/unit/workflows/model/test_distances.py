"""How far a row looks that looks at its visible keys alike, against plain sums."""

from __future__ import annotations

import numpy as np
import pytest

from attn_cli.workflows.model import distances
from attn_cli.workflows.model.distances import uniform_distance


def test_causal_rows_look_half_way_back() -> None:
    visible = np.tri(5, dtype=bool)[None, None]
    np.testing.assert_allclose(uniform_distance(visible, 5, 5, 0)[0, 0], [0, 0.5, 1, 1.5, 2])


def test_all_keys_where_there_is_no_mask() -> None:
    np.testing.assert_allclose(uniform_distance(None, 3, 3, 0)[0, 0], [1, 2 / 3, 1])


def test_queries_behind_a_cache_stand_later() -> None:
    visible = np.array([[[[True, True, True, False], [True, True, True, True]]]])
    np.testing.assert_allclose(uniform_distance(visible, 2, 4, 2)[0, 0], [1.0, 1.5])


def test_an_empty_row_has_none() -> None:
    visible = np.array([[[[False, False], [True, True]]]])
    np.testing.assert_array_equal(uniform_distance(visible, 2, 2, 0)[0, 0], [np.nan, 0.5])


def test_blocks_of_rows_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    visible = np.random.default_rng(0).random((2, 3, 7, 7)) < 0.6
    whole = uniform_distance(visible, 7, 7, 0)
    monkeypatch.setattr(distances, "AT_ONCE", 50)
    np.testing.assert_array_equal(uniform_distance(visible, 7, 7, 0), whole)
