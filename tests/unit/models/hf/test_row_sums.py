"""Row sums in blocks are those of the whole matrix, by numpy in float64."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attn_cli.core.statistics import Array, Statistic
from attn_cli.models.hf import row_sums as row_sums_module
from attn_cli.models.hf.call import AttentionCall
from attn_cli.models.hf.capture import capture
from attn_cli.models.hf.diagonals import PREVIOUS_WEIGHT, SELF_WEIGHT
from attn_cli.models.hf.inputs import inputs_of_ids
from attn_cli.models.hf.row_statistics import RowStatistics
from attn_cli.models.hf.stage_keeper import StageKeeper
from attn_cli.stats import STATISTICS
from tests.unit.models.hf.making import drawn, made

STATS: list[Statistic] = [*(STATISTICS[name] for name in STATISTICS), SELF_WEIGHT, PREVIOUS_WEIGHT]
NAMES = "llama gemma2 gpt_oss qwen3_next t5 bloom falcon bert mistral:sliding"


def expected(kept: dict[str, Array]) -> dict[str, Array]:
    """Every statistic by its definition, from whole weights and masked scores."""
    weights, masked = kept["weights"].astype(np.float64), kept["masked"]
    visible = (masked > -1e4).sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        nats = -np.where(weights > 0, weights * np.log(weights), 0).sum(-1)
        share = np.where(visible > 1, nats / np.log(visible), np.nan)
    q, k = np.arange(weights.shape[-2])[:, None], np.arange(weights.shape[-1])
    return {
        "visible_keys": visible,
        "sum": weights.sum(-1),
        "entropy": nats,
        "normalized_entropy": share,
        "effective_keys": np.exp(nats),
        "max_weight": weights.max(-1),
        "mean_distance": (weights * abs(q - k)).sum(-1),
        "first_key_weight": weights[..., 0],
        "self_weight": (weights * (q == k)).sum(-1),
        "previous_weight": (weights * (q - k == 1)).sum(-1),
    }


@pytest.mark.parametrize("at_once", [1, 300, 1 << 18])  # one head, two heads, all at once
@pytest.mark.parametrize("name", NAMES.split())
def test_row_statistics_are_those_of_the_matrix(
    name: str, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_sums_module, "PIECE", at_once)
    loaded = made(tmp_path, name)
    keeper, statistics = StageKeeper(("weights", "masked"), dtype="float64"), RowStatistics(STATS)
    coverage = capture(loaded, drawn(loaded), [keeper, statistics]).coverage
    for facts in coverage.calls:
        right, values = expected(keeper.kept[facts.place]), statistics.values(facts.place)
        assert values.keys() == right.keys()
        for statistic, value in values.items():
            if facts.cross and statistic in ("mean_distance", "self_weight", "previous_weight"):
                assert np.isnan(value).all()  # positions of two sequences
                continue
            np.testing.assert_allclose(
                value, right[statistic], rtol=2e-5, atol=2e-6, err_msg=f"{facts.place} {statistic}"
            )


def test_rows_of_padding(tmp_path: Path) -> None:
    loaded = made(tmp_path, "llama")
    statistics = RowStatistics(STATS)
    inputs = inputs_of_ids(loaded, [[5, 6, 7, 8], [9, 10]], side="left")
    capture(loaded, inputs, [statistics])
    values = next(iter(statistics.rows.values()))
    assert values.visible[1, 0].tolist()[2:] == [1, 2]
    assert values.visible[0, 0].tolist() == [1, 2, 3, 4]


def test_a_row_that_is_hidden_whole_is_empty(tmp_path: Path) -> None:
    loaded = made(tmp_path, "llama")
    rows: list[Any] = []

    class Masking:
        def see(self, call: AttentionCall) -> None:
            mask = torch.ones(1, 1, 12, 12, dtype=torch.bool).tril()
            mask[..., 3, :] = False
            facts = replace(call.facts, causal=False)
            rows.append(row_sums_module.row_sums(replace(call, mask=mask, facts=facts), STATS))

    capture(loaded, drawn(loaded), [Masking()])
    assert rows[0].empty[0, 0].tolist() == [row == 3 for row in range(12)]
    values = {statistic.name: statistic.finish(rows[0])[0, 0, 3] for statistic in STATS}
    zero = {"visible_keys", "sum"}
    assert {name for name, value in values.items() if value == 0} == zero
    assert all(np.isnan(value) for name, value in values.items() if name not in zero)
    assert rows[0].maximum[0, 0, 3] == rows[0].lse[0, 0, 3] == -np.inf


def test_large_scores_keep_their_entropy(tmp_path: Path) -> None:
    """Scores near 3,000: relative to the row's maximum nothing of the entropy is lost."""
    loaded = made(tmp_path, "llama")
    found: list[Any] = []

    class Far:
        def see(self, call: AttentionCall) -> None:
            assert call.q is not None
            assert call.k is not None
            q, k = torch.zeros_like(call.q), torch.zeros_like(call.k)
            q[..., 0], k[..., 0] = 3000.0, 1.0
            far = replace(call, q=q, k=k, scaling=1.0)
            found.append(row_sums_module.row_sums(far, STATS))

    capture(loaded, drawn(loaded), [Far()])
    entropy = STATISTICS["entropy"].finish(found[0])[0, 0]
    np.testing.assert_allclose(entropy, np.log(np.arange(1, 13)), atol=1e-6)
    np.testing.assert_allclose(found[0].maximum, 3000)
