"""Statistics at the edges: empty rows, one key, sinks, finite fills, positions apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attn_cli.core.engine import Ask
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.trace import Trace
from attn_cli.engines import ENGINES
from attn_cli.stats import STATISTICS
from tests.agreement.holding import ENGINE_DTYPES, STEPWISE, lse_of, run
from tests.agreement.samples import built, drawn, stored

every_engine = pytest.mark.parametrize("engine", STEPWISE)
INF = float("inf")
# An empty row: 0 for sums and counts, NaN for the rest.
EMPTY = {"sum": 0.0, "visible_keys": 0.0}


def one_empty_row(**more: Any) -> AttentionInputs:
    plain = drawn(1, batch=2, queries=3, keys=4, **more)
    keep = np.ones((3, 4), bool)
    keep[1] = False
    return replace(plain, mask=stored(keep, plain.shape))


def row(trace: Trace, query: int) -> dict[str, float]:
    return {name: float(trace.stats[name][0, 0, query]) for name in trace.stats}


@pytest.mark.parametrize("engine, dtype", ENGINE_DTYPES)
def test_an_empty_row(engine: str, dtype: str) -> None:
    trace = run(engine, one_empty_row(), dtype)
    np.testing.assert_array_equal(trace.empty, [[[False, True, False]] * 2] * 2)
    assert (trace["weights"][:, :, 1] == 0).all()
    assert (trace["context"][:, :, 1] == 0).all()
    assert (trace["masked"][:, :, 1] == -INF).all()
    assert (lse_of(trace)[:, :, 1] == -INF).all()
    for name in STATISTICS:
        np.testing.assert_array_equal(trace.stats[name][:, :, 1], EMPTY.get(name, np.nan), name)
        assert np.isfinite(trace.stats[name][:, :, [0, 2]]).all()
    assert trace.top
    np.testing.assert_array_equal(trace.top.keys[:, :, 1], -1)


@every_engine
def test_an_empty_row_with_a_sink_is_empty_all_the_same(engine: str) -> None:
    trace = run(engine, one_empty_row(sinks=np.array([2.0, -1.0])))
    assert trace.empty[:, :, 1].all()
    assert (lse_of(trace)[:, :, 1] == -INF).all()
    assert row(trace, 1)["sum"] == 0
    assert (trace["context"][:, :, 1] == 0).all()


@every_engine
def test_every_row_may_be_empty(engine: str) -> None:
    plain = drawn(2)
    trace = run(engine, replace(plain, mask=stored(np.zeros((5, 5)), plain.shape)))
    assert trace.empty.all()
    assert trace.cosine is not None
    assert np.isnan(trace.cosine).all()


@every_engine
def test_one_visible_key(engine: str) -> None:
    plain = drawn(3)
    trace = run(engine, replace(plain, mask=built("sink(1)", plain)))
    expected = {
        "sum": 1, "entropy": 0, "normalized_entropy": np.nan, "effective_keys": 1,
        "max_weight": 1, "visible_keys": 1, "mean_distance": 3, "first_key_weight": 1,
    }  # fmt: skip
    assert set(expected) == set(STATISTICS)
    np.testing.assert_equal(row(trace, 3), expected)


@pytest.mark.parametrize("engine, dtype", ENGINE_DTYPES)
@pytest.mark.parametrize("size", [1.0, 30.0, 3000.0])
def test_entropy_is_never_below_0_nor_minus_0(engine: str, dtype: str, size: float) -> None:
    q = drawn(4, heads=3, queries=40, keys=6).q * (size if dtype != "float16" else 30.0)
    plain = drawn(4, heads=3, queries=40, keys=6)
    entropy = run(engine, replace(plain, q=q), dtype).stats["entropy"]
    assert (entropy >= 0).all()
    assert not np.signbit(entropy).any()


@every_engine
def test_a_finite_fill_is_not_counted(engine: str) -> None:
    additive = np.zeros((5, 5))
    additive[0, 2:] = additive[1] = -1e9
    trace = run(engine, drawn(5, additive=additive))
    np.testing.assert_array_equal(trace.stats["visible_keys"][0, 0], [2, 0, 5, 5, 5])
    assert not trace.empty.any()
    assert np.isnan(trace.stats["normalized_entropy"][0, 0, 1])  # no key counts
    np.testing.assert_allclose(trace.stats["sum"], 1, rtol=1e-13)


@every_engine
def test_positions_without_a_common_origin_have_no_distance(engine: str) -> None:
    trace = run(engine, drawn(6, queries=3, keys=7, q_offset=None))
    assert np.isnan(trace.stats["mean_distance"]).all()
    assert np.isfinite(trace.stats["first_key_weight"]).all()


@every_engine
@pytest.mark.parametrize("offset", [0, 4, -2])
def test_distance_counts_from_where_the_queries_stand(engine: str, offset: int) -> None:
    """Equal weights on keys 0 … 6: the mean of |q − k|."""
    plain = drawn(7, size=0.0, queries=3, keys=7, q_offset=offset)
    expected = [np.abs(offset + i - np.arange(7)).mean() for i in range(3)]
    distance = run(engine, plain).stats["mean_distance"]
    np.testing.assert_allclose(distance[0, 0], expected, rtol=1e-14)


@every_engine
def test_a_sink_that_takes_all_leaves_zeros(engine: str) -> None:
    trace = run(engine, drawn(8, sinks=np.array([1e4, 0.0])))
    numbers = row(trace, 2)
    assert numbers["sum"] == numbers["max_weight"] == numbers["entropy"] == 0
    assert not np.signbit(numbers["entropy"])
    assert lse_of(trace)[0, 0, 2] == 1e4


@every_engine
def test_entropy_is_that_of_the_weights_sinks_or_not(engine: str) -> None:
    """−Σ w ln w over the keys; the sink's own share is left out."""
    trace = run(engine, drawn(9, batch=2, sinks=np.array([0.5, 2.0])))
    w = trace["weights"]
    np.testing.assert_allclose(trace.stats["entropy"], -(w * np.log(w)).sum(-1), rtol=1e-12)


@pytest.mark.parametrize("name", list(STATISTICS))
def test_a_statistic_describes_itself(name: str) -> None:
    statistic = STATISTICS[name]
    assert statistic.name == name
    assert statistic.title
    assert statistic.unit in ("", "nat", "keys", "tokens")
    for g in statistic.terms.values():
        value = np.broadcast_to(g(np.arange(3)[:, None], np.arange(4)), (3, 4))
        assert np.isfinite(value).all()


@every_engine
@pytest.mark.parametrize("name", list(STATISTICS))
def test_a_statistic_can_be_asked_for_alone(engine: str, name: str) -> None:
    inputs = one_empty_row()
    alone = ENGINES[engine].run(inputs, Ask(stats=[STATISTICS[name]])).stats
    assert list(alone) == [name]
    np.testing.assert_array_equal(alone[name], run(engine, inputs).stats[name])
