"""Spread: quantiles, histograms, positions and sinks, held against the dense weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_cli.core.results_spread import QUANTILES, Spread, joined
from attn_cli.workflows import spread
from tests.unit.workflows.tiled_runs import run_on, saved


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "LONG", 50)


def of(path: Path, engine: str, **more: Any) -> Spread:
    found = run_on(path, engine, parts=frozenset({"json"}), **more).spread
    assert found is not None
    return found


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("engine", ["numpy", "torch", "tiled"])
def test_it_is_what_the_weights_say(tmp_path: Path, engine: str) -> None:
    path = saved(tmp_path, length=70)
    weights = run_on(path, "numpy", values=("weights",)).values["weights"].array[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(weights > 0, weights * np.log(weights), 0).sum(-1)
    position = np.arange(70)
    distance = (weights * abs(position[:, None] - position)).sum(-1)
    for head in of(path, engine).heads:
        h = head.head
        for told, values in ((head.entropy, entropy[h]), (head.distance, distance[h])):
            assert told is not None
            assert told.rows == sum(told.counts) == 70
            np.testing.assert_allclose(
                list(told.quantiles.values()), np.quantile(values, np.array(QUANTILES) / 100),
                rtol=1e-11, atol=1e-14,
            )  # fmt: skip
            # A value on an edge may fall to either side by rounding: compare sums of bins.
            below = np.searchsorted(np.sort(values), np.array(told.edges[1:-1]))
            assert np.abs(np.cumsum(told.counts)[:-1] - below).max() <= 1
        received = weights[h].sum(0) / weights[h].sum()
        best = np.argsort(-received)[:5]
        assert [sink.key for sink in head.sinks] == best.tolist()
        np.testing.assert_allclose([s.weight for s in head.sinks], received[best], rtol=1e-12)
        assert [s.first for s in head.by_position] == list(range(0, 70, 2))
        assert head.by_position[-1].last == 69
        pairs = entropy[h].reshape(-1, 2).mean(1)
        np.testing.assert_allclose([s.entropy for s in head.by_position], pairs, atol=1e-12)


@pytest.mark.usefixtures("short")
def test_empty_rows_are_left_out_and_nan_has_no_sinks(tmp_path: Path) -> None:
    path = saved(tmp_path, length=70)
    (head, _) = of(path, "tiled", masks=("causal & ~window(3)",)).heads
    assert head.entropy.rows == 67
    assert np.isnan(head.by_position[0].entropy)
    assert head.by_position[0].to_dict()["entropy"] is None
    arrays = dict(np.load(path))
    arrays["q"][0, 0, 9] = np.nan
    np.savez(path, **arrays)
    lost, fine = of(path, "tiled").heads
    assert (lost.sinks, lost.entropy.rows) == ((), 69)
    assert len(fine.sinks) == 5


@pytest.mark.usefixtures("short")
def test_unusual_rows_are_in_the_json(tmp_path: Path) -> None:
    told = of(saved(tmp_path, length=70), "tiled", heads_shown=(1,)).to_dict()
    assert [head["head"] for head in told["heads"]] == [1]
    assert {"entropy", "mean_distance", "by_position", "sinks"} < set(told["heads"][0])
    whys = " ".join(row["why"] for row in told["unusual"])
    for why in ("first", "last", "most focused", "most spread", "looks farthest"):
        assert why in whys


def test_short_runs_have_none(tmp_path: Path) -> None:
    result = run_on(saved(tmp_path), "numpy", parts=frozenset({"json"}))
    assert result.spread is None
    assert "spread" not in result.to_dict()
    assert result.trace.received is None


@pytest.mark.usefixtures("short")
def test_layers_are_joined(tmp_path: Path) -> None:
    one = of(saved(tmp_path), "numpy")
    both = joined([one.of_layer(0), None, one.of_layer(3)])
    assert both is not None
    assert [head.layer for head in both.heads] == [0, 0, 3, 3]
    assert joined([None]) is None


def test_a_short_run_has_it_where_it_is_asked_for(tmp_path: Path) -> None:
    asked = run_on(saved(tmp_path), "numpy", parts=frozenset({"spread"})).spread
    assert asked is not None
    assert [head.entropy.rows for head in asked.heads] == [60, 60]
