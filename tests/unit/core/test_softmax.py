"""Partial rows of one tile and their closing, by hand; merging is tested as a property."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attn_cli.core.softmax import PartialRows, close, partial_rows
from attn_cli.core.statistics import Term

Array = NDArray[Any]
NAN, INF = float("nan"), float("inf")
TERMS: dict[str, Term] = {"distance": lambda q, k: abs(q - k)}


def tile(masked: Any, takes_part: Any = None, counted: Any = None) -> tuple[Array, PartialRows]:
    """One head, as many queries as rows are given, keys from 0."""
    scores = np.array([masked], float)
    with np.errstate(invalid="ignore"):
        return partial_rows(
            scores,
            q_pos=np.arange(scores.shape[1])[:, None],
            k_pos=np.arange(scores.shape[2]),
            terms=TERMS,
            takes_part=None if takes_part is None else np.array([takes_part], bool),
            counted=None if counted is None else np.array([counted], bool),
        )


def test_sums_are_relative_to_the_maximum() -> None:
    """Scores ln 3 and 0: p = 1, 1/3; Σ p = 4/3; Σ p·(s − m) = −ln 3 / 3; Σ p·|q − k| = 1/3."""
    p, rows = tile([[np.log(3), 0.0]])
    np.testing.assert_allclose(p, [[[1, 1 / 3]]])
    assert rows.maximum.item() == np.log(3)
    np.testing.assert_allclose(rows.total, 4 / 3)
    np.testing.assert_allclose(rows.weight_sum, 4 / 3)
    np.testing.assert_allclose(rows.shifted, -np.log(3) / 3)
    np.testing.assert_allclose(rows.expected["distance"], 1 / 3)
    assert rows.visible.item() == 2
    assert rows.seen.item()


def test_closing_divides_by_z() -> None:
    p, rows = tile([[np.log(3), 0.0]])
    sums, kept, total = close(rows, sinks=None, aligned=True)
    np.testing.assert_allclose(p * kept[..., None] / total[..., None], [[[0.75, 0.25]]])
    np.testing.assert_allclose(sums.lse, np.log(4))
    np.testing.assert_allclose(sums.log_z, np.log(4 / 3))
    np.testing.assert_allclose(sums.expected["distance"], 0.25)
    np.testing.assert_allclose(sums.shifted, -np.log(3) / 4)


@pytest.mark.parametrize("sink", [0.0, 5.0, 800.0, -800.0])
def test_a_sink_adds_to_z_also_where_it_is_the_largest(sink: float) -> None:
    p, rows = tile([[np.log(3), 0.0]])
    sums, kept, total = close(rows, sinks=np.array([[sink]]), aligned=True)
    expected = np.array([0.75, 0.25])
    if sink > -800.0:  # which takes nothing; e^800 would overflow here
        expected = np.exp([np.log(3) - sink, -sink]) / (1 + np.exp(np.log(4) - sink))
    weights = (p * kept[..., None] / total[..., None])[0, 0]
    np.testing.assert_allclose(weights, expected, rtol=1e-13)
    np.testing.assert_allclose(sums.lse, np.logaddexp(np.log(4), sink), rtol=1e-15)
    np.testing.assert_allclose(np.exp(-sums.log_z), weights[0], rtol=1e-12)


def test_a_hidden_key_has_nothing_even_in_a_row_of_nan() -> None:
    p, rows = tile([[NAN, -INF, 1.0], [1.0, -INF, 2.0]], takes_part=[[1, 0, 1], [1, 0, 1]])
    np.testing.assert_array_equal(p[0, :, 1], 0)
    assert np.isnan(p[0, 0, [0, 2]]).all()
    assert np.isnan(rows.total[0, 0])
    assert np.isfinite(rows.total[0, 1])


def test_a_row_that_sees_nothing_leaves_zeros() -> None:
    p, rows = tile([[-INF, -INF], [0.0, -INF]], takes_part=[[0, 0], [1, 0]])
    np.testing.assert_array_equal(p, [[[0, 0], [1, 0]]])
    assert rows.maximum[0, 0] == -INF
    assert rows.total[0, 0] == rows.shifted[0, 0] == rows.expected["distance"][0, 0] == 0
    np.testing.assert_array_equal(rows.seen, [[False, True]])
    sums, kept, total = close(rows, sinks=None, aligned=True)
    assert (kept[0, 0], total[0, 0]) == (0, 1)
    np.testing.assert_array_equal(sums.empty, [[True, False]])
    assert sums.lse[0, 0] == sums.maximum[0, 0] == -INF
    assert np.isnan(sums.log_z[0, 0])
    assert sums.weight_sum[0, 0] == 0


def test_what_counts_as_visible_may_be_less_than_what_takes_part() -> None:
    _, rows = tile([[0.0, -1e9, 0.0]], counted=[[1, 0, 1]])
    assert rows.visible.item() == 2
    assert rows.seen.item()
