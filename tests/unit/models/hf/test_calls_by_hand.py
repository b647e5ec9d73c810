"""Row sums, stages and trust on calls of every geometry, held against the plain formula."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from attn_cli.core.statistics import Array, Statistic
from attn_cli.models.hf import row_sums as row_sums_module
from attn_cli.models.hf.blocks import rows_of, stages_of
from attn_cli.models.hf.diagonals import NEXT_WEIGHT, PREVIOUS_WEIGHT, SELF_WEIGHT
from attn_cli.models.hf.expectations import KEPT, Expectations
from attn_cli.models.hf.row_sums import row_sums
from attn_cli.models.hf.trust import explained
from attn_cli.stats import STATISTICS
from tests.unit.models.hf.calls_by_hand import at_its_softmax, attention_call, masked_and_weights

DIAGONALS: list[Statistic] = [SELF_WEIGHT, PREVIOUS_WEIGHT, NEXT_WEIGHT]
STATS: list[Statistic] = [*(STATISTICS[name] for name in STATISTICS), *DIAGONALS]
INF, MIN = -torch.inf, float(torch.finfo(torch.float32).min)
TRIL = torch.ones(5, 7, dtype=torch.bool).tril(2)


def fill(*rows: tuple[float, ...]) -> torch.Tensor:
    """(1, 1, 5, 7): numbers for the keys of row 0, of row 1, …; 0 in the rest."""
    made = torch.zeros(1, 1, 5, 7)
    for number, row in enumerate(rows):
        made[0, 0, number] = torch.tensor(row)
    return made


GEOMETRIES: dict[str, dict[str, Any]] = {
    "plain": {},
    "one key": {"keys": 1, "queries": 1},
    "fewer keys": {"keys": 3, "queries": 11},
    "causal": {"keys": 9, "queries": 9, "causal": True},
    "causal, fewer keys": {"batch": 1, "keys": 2, "queries": 11, "causal": True},
    "causal, a bias of -inf": {
        "keys": 5,
        "causal": True,
        "bias": fill((0, INF, 0, 0, 0, 0, 0))[..., :5],
    },
    "cross": {"cross": True},
    "float64": {"dtype": torch.float64, "softcap": 1.5},
    "bfloat16": {"dtype": torch.bfloat16, "sinks": torch.tensor([-1.0, 0, 1, 3])[:, None, None]},
    "one kv head": {"heads": 6, "kv_heads": 1},
    "own kv heads": {"heads": 3, "kv_heads": 3, "batch": 3},
    "softcap": {"softcap": 0.5, "mask": TRIL},
    "mask of two axes": {"mask": TRIL},
    "mask of an item": {"mask": torch.stack([TRIL, ~TRIL])[:, None]},
    "mask of a head": {"mask": torch.stack([TRIL, TRIL.flip(1), TRIL, ~TRIL])},
    "mask of whole rows": {"mask": torch.tensor([True, False, True, True, False])[:, None]},
    "mask of keys": {"mask": torch.tensor([True] * 4 + [False] * 3)[None]},
    "added to whole rows": {"mask": torch.tensor([0.0, MIN, 0, INF, 0])[:, None]},
    "added, a finite fill": {"mask": fill((0, 0, MIN, MIN, MIN, MIN, MIN), (MIN,) * 7)},
    "added, -inf": {"mask": fill((INF,) * 7, (0, INF, INF, INF, 0, 0, INF))},
    "added, a fill beside -inf": {"mask": fill((MIN, MIN, MIN, INF, INF, INF, INF))},
    "sinks": {"sinks": torch.tensor([-2.0, 0, 2, 9])[:, None, None], "mask": TRIL},
    "sinks of rows": {"sinks": torch.linspace(-3, 3, 20).reshape(1, 4, 5, 1)},
    "bias of three axes": {"bias": torch.linspace(-2, 2, 4 * 5 * 7).reshape(4, 5, 7)},
}
AT_ONCE = [1, 40, 1 << 20]  # one row, a head or two, all


def expected(call: Any) -> dict[str, Array]:
    """The statistics by their definition; NaN where they have none."""
    masked, weights = masked_and_weights(call)
    visible, empty = (masked > -1e4).sum(-1), np.isneginf(masked).all(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        nats = -np.where(weights > 0, weights * np.log(weights), 0).sum(-1)
        total = weights.sum(-1)
        share = np.where(visible > 1, nats / np.log(visible), np.nan)
    k_pos = np.arange(weights.shape[-1])
    distance = np.arange(weights.shape[-2])[:, None] + (call.facts.q_offset or 0) - k_pos
    found = {
        "entropy": nats,
        "normalized_entropy": share,
        "effective_keys": np.exp(nats),
        "max_weight": weights.max(-1),
        "first_key_weight": weights[..., 0],
        "mean_distance": (weights * abs(distance)).sum(-1),
        "self_weight": (weights * (distance == 0)).sum(-1),
        "previous_weight": (weights * (distance == 1)).sum(-1),
        "next_weight": (weights * (distance == -1)).sum(-1),
    }
    for name in ("mean_distance", "self_weight", "previous_weight", "next_weight"):
        if call.facts.q_offset is None:
            found[name] = np.full_like(nats, np.nan)
    found = {name: np.where(empty, np.nan, value) for name, value in found.items()}
    return {**found, "sum": total, "visible_keys": visible}


def hold(call: Any, right: dict[str, Array]) -> None:
    sums = row_sums(call, STATS)
    for statistic in STATS:
        with np.errstate(divide="ignore", invalid="ignore"):
            value = statistic.finish(sums)
        np.testing.assert_allclose(
            value, right[statistic.name], rtol=2e-5, atol=3e-6, err_msg=statistic.name
        )


@pytest.mark.parametrize("at_once", AT_ONCE)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_row_sums(name: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_sums_module, "PIECE", at_once)
    monkeypatch.setattr(row_sums_module, "ROWS", 2)
    call = attention_call(**GEOMETRIES[name])
    hold(call, expected(call))


@pytest.mark.parametrize("name", [name for name in GEOMETRIES if "sinks" not in GEOMETRIES[name]])
def test_row_sums_of_a_call_seen_at_its_softmax(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_sums_module, "PIECE", 40)
    call = attention_call(**GEOMETRIES[name])
    hold(at_its_softmax(call), expected(call))


@pytest.mark.parametrize("heads", [None, [1], [2, 0]])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_stages(name: str, heads: list[int] | None) -> None:
    call = attention_call(**GEOMETRIES[name])
    _, right = masked_and_weights(call)
    chosen = range(call.facts.heads) if heads is None else heads
    for rows in rows_of(call, at_once=40):
        found = stages_of(call, rows, heads=heads, wanted=("weights",))["weights"]
        np.testing.assert_allclose(found, right[:, list(chosen)][:, :, rows], rtol=1e-5, atol=1e-6)


def test_a_bias_of_minus_infinity_hides() -> None:
    """Though it is no mask, so that the key counts among those that are visible."""
    call = attention_call(bias=fill((0, 0, INF, 0, 0, 0, INF)), mask=TRIL)
    nats = STATISTICS["entropy"].finish(row_sums(call, STATS))
    np.testing.assert_allclose(nats, expected(call)["entropy"], rtol=1e-5)


def test_no_queries() -> None:
    sums = row_sums(attention_call(queries=0), STATS)
    assert sums.weight_sum.shape == sums.expected["first"].shape == (2, 4, 0)


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_in_its_row(odd: float) -> None:
    call = attention_call()
    assert call.q is not None
    clean = row_sums(call, STATS)
    call.q[1, 2, 3] = odd
    lost = row_sums(call, STATS)
    where = np.zeros((2, 4, 5), bool)
    where[1, 2, 3] = True
    np.testing.assert_array_equal(np.isnan(lost.weight_sum), where)
    np.testing.assert_array_equal(lost.weight_sum[~where], clean.weight_sum[~where])


def test_a_row_whose_keys_are_all_filled_is_not_held_against_the_model() -> None:
    """−65504 swallows the scores of float16, so that the model looks at all keys alike there."""
    mask = fill((float(torch.finfo(torch.float16).min),) * 7)
    call = attention_call(mask=mask, dtype=torch.float16)
    assert call.v is not None
    _, weights = masked_and_weights(call)
    weights[:, :, 0] = 1 / 7
    values = np.repeat(call.v.double().numpy(), 2, 1)
    model = torch.from_numpy(weights @ values).half()
    assert explained(replace(call, context=model))
    model[:, :, 4] *= 1.1
    assert not explained(replace(call, context=model))


def test_what_is_kept_of_terms_has_an_end() -> None:
    """Blocks of few rows over many keys: their columns count as well."""
    terms = {name: g for statistic in STATS for name, g in statistic.terms.items()}
    expectations, keys = Expectations(terms), 200_000
    for start in range(0, keys - 100, 5_000):
        expectations.of(torch.ones(1, 1, 2, keys), range(start, start + 2))
    pieces = [piece for each in expectations._kept.values() for piece in each]
    assert pieces
    assert sum(p.values.numel() + p.columns.numel() for p in pieces) <= KEPT
