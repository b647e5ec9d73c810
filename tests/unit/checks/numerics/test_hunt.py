"""The hunt: a fault planted in every stage is found where it is, with what made it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from attn_cli.checks.numerics import torch_blocks
from attn_cli.checks.numerics.findings import hunt_findings
from attn_cli.checks.numerics.torch_blocks import Way
from attn_cli.checks.numerics.torch_hunt import scan
from attn_cli.checks.numerics.torch_layer import hunt
from attn_cli.core.engine import Ask
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.masks import Mask, MaskContext
from attn_cli.core.results_numerics import Culprit, Hunt
from attn_cli.core.trace import ALL_STAGES
from attn_cli.engines.torch_eager import ENGINE
from attn_cli.masks.expression import parse
from tests.unit.checks.numerics.planted import layer, qkv


def built(expression: str, inputs: AttentionInputs) -> Mask:
    mask = parse(expression).build(MaskContext(*inputs.shape))
    assert mask is not None
    return mask


def found(inputs: AttentionInputs, dtype: str = "float16") -> tuple[Hunt, Culprit]:
    """The hunt where something was found."""
    result, _ = hunt(inputs, dtype)
    assert result.culprit is not None
    return result, result.culprit


def where(result: Hunt) -> dict[str, Any]:
    assert result.first is not None
    assert result.first.first is not None
    place = result.first.first
    return {
        name: getattr(place, name)
        for name in ("batch", "head", "query", "key")
        if getattr(place, name) is not None
    }


def test_nothing_is_found_where_everything_is_finite() -> None:
    result, output = hunt(qkv(), "float16")
    assert result.first is None
    assert result.culprit is None
    assert [stage.stage for stage in result.stages][:2] == ["inputs", "scores"]
    assert output.shape == (1, 2, 5, 8)


def test_sixty_fold_vectors_overflow_at_the_scores_and_scaling_q_first_helps() -> None:
    """60² · 64 = 230,400 > 65,504, and ÷ √64 it is 28,800; only one pair is long enough."""
    inputs = qkv(d=64)
    inputs.q[:], inputs.k[:] = inputs.q / 8, inputs.k / 8
    inputs.q[0, 1, 2], inputs.k[0, 1, 4] = 60, 60
    result, culprit = found(inputs)
    assert result.first is not None
    assert (result.first.stage, result.first.inf, result.first.nan) == ("scores", 1, 0)
    assert where(result) == {"batch": 0, "head": 1, "query": 2, "key": 4}
    assert (culprit.cause, culprit.value, culprit.exact) == ("score-overflow", np.inf, 230_400.0)
    assert culprit.limit == 65504
    assert culprit.passed == 18  # 19 · 3600 = 68,400 is the first beyond
    decisive = culprit.terms[-1]
    assert (decisive.left, decisive.right, decisive.product) == (60, 60, 3600)
    assert decisive.partial == 68_400
    first, both, *wider = culprit.attempts
    assert (first.what, first.first, first.bad) == ("scale q before the product", None, 0)
    assert first.largest == 28_800
    np.testing.assert_allclose(both.largest, 28_800, rtol=2**-9)  # √0.125 is rounded, twice
    assert [one.first for one in wider] == [None, None]


def test_what_torch_computes_is_what_is_reported() -> None:
    """The same programs written by hand, unscaled first and scaled first."""
    inputs = qkv(d=64)
    inputs.q[:], inputs.k[:] = inputs.q * 90, inputs.k * 90
    q, k = torch.tensor(inputs.q), torch.tensor(inputs.k)
    result = scan(inputs, Way(dtype="float16"))
    assert result.tallies["scores"].inf == int(torch.isinf(q @ k.mT).sum()) > 0
    first = scan(inputs, Way(dtype="float16", first="q"))
    scores = (q * 0.125) @ k.mT
    assert first.bad("scores") == int((~torch.isfinite(scores)).sum()) == 0
    assert first.largest["scores"] == float(scores.abs().max())


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_the_input_itself(name: str, value: float) -> None:
    inputs = qkv()
    getattr(inputs, name)[0, 1, 3, 2] = value
    result, culprit = found(inputs)
    assert result.first is result.stages[0]
    axis = "query" if name == "q" else "key"
    assert where(result) == {"batch": 0, "head": 1, axis: 3}
    assert culprit.cause == "input"
    np.testing.assert_equal(culprit.value, value)
    later = next(stage for stage in result.stages if stage.stage == "context")
    assert later.bad


def test_a_hidden_nan_takes_no_part_and_is_counted_as_hidden() -> None:
    inputs = qkv()
    inputs.v[0, 1, 3, 2] = np.nan
    inputs = replace(inputs, mask=built("padding(3)", inputs))
    result, _ = hunt(inputs, "float16")
    assert result.first is None
    assert (result.stages[0].hidden, result.stages[0].bad) == (1, 0)


def test_a_number_that_the_precision_does_not_have() -> None:
    inputs = qkv(dtype="float32")
    inputs.v[0, 0, 2, 1] = 1e5
    result, culprit = found(inputs)
    assert where(result) == {"batch": 0, "head": 0, "key": 2}
    assert (culprit.cause, culprit.value, culprit.exact) == ("input-overflow", np.inf, 1e5)
    assert hunt(inputs, "float32")[0].first is None
    assert hunt(inputs, "bfloat16")[0].first is None


@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_a_projection(name: str) -> None:
    """Row 2 of x is 200, column 5 of the matrix 100: 8 · 20,000 = 160,000."""
    x = np.ones((1, 4, 8), np.float16) / 16
    x[0, 2] = 200
    matrix = np.eye(8, dtype=np.float16) / 1000
    matrix[:, 5] = 100
    inputs = layer(x, {f"w_{name}": matrix, "w_o": np.eye(8, dtype=np.float16) / 1000})
    result, culprit = found(inputs)
    assert result.first is not None
    assert (result.first.stage, result.first.inf) == (name, 1)
    axis = "query" if name == "q" else "key"
    assert where(result) == {"batch": 0, "head": 1, axis: 2}  # column 5: feature 1 of head 1
    assert result.first.words.endswith("feature 1")
    assert (culprit.cause, culprit.exact, culprit.passed) == ("projection-overflow", 160_000, 3)
    assert culprit.terms_total == 8
    assert [one.what for one in culprit.attempts] == ["all in bfloat16", "all in float32"]


def test_a_scale_that_is_too_large() -> None:
    inputs = qkv(scale=1e5)
    result, culprit = found(inputs)
    assert result.first is not None
    assert result.first.stage == "scaled"
    assert dict(culprit.operands)["scale"] == 1e5
    np.testing.assert_allclose(culprit.exact, dict(culprit.operands)["score"] * 1e5)


def test_a_bias_on_top_of_a_large_score() -> None:
    bias = np.zeros((1, 2, 5, 6), np.float16)
    bias[0, 1, 2, 3] = 60_000
    inputs = qkv(bias=bias, scale=1.0)
    inputs.q[0, 1, 2], inputs.k[0, 1, 3] = 30, 30  # 8 · 900 = 7,200
    result, culprit = found(inputs)
    assert result.first is not None
    assert (result.first.stage, result.first.inf) == ("biased", 1)
    assert where(result) == {"batch": 0, "head": 1, "query": 2, "key": 3}
    assert culprit.operands == (("softcapped", 7200.0), ("bias", 60000.0))
    assert culprit.exact == 67_200


def test_a_softcap_beyond_the_precision() -> None:
    """tanh(≈ 1) · 1e5 is beyond float16."""
    inputs = qkv(scale=1.0, softcap=70_000.0)
    inputs.q[0, 0, 0], inputs.k[0, 0, 0] = 89, 90  # 64,080; capped 50,700: fine
    assert hunt(inputs, "float16")[0].first is None
    inputs = qkv(scale=1.0, softcap=1e7)
    assert scan(inputs, Way(dtype="float16")).first is None


def test_two_fills_of_the_smallest_float16_make_a_row_of_infinity() -> None:
    low = np.finfo(np.float16).min
    bias, additive = np.zeros((1, 2, 5, 6), np.float16), np.zeros((5, 6), np.float16)
    bias[0, 1, 2], additive[2] = low, low
    result, culprit = found(qkv(bias=bias, additive=additive))
    assert result.first is not None
    assert (result.first.stage, result.first.nan) == ("weights", 6)
    assert where(result) == {"batch": 0, "head": 1, "query": 2, "key": 0}
    assert culprit.cause == "row-of-inf"
    assert result.fills == 6
    assert [one.first for one in culprit.attempts] == [None, None]
    scores = torch.zeros(6, dtype=torch.float16) + float(low) + float(low)
    assert bool(torch.isnan(torch.softmax(scores, -1)).all())  # what a program does


def test_one_fill_that_becomes_infinite_hides_its_key_and_is_no_fault() -> None:
    additive = np.zeros((5, 6), np.float32)
    additive[:, 4] = -1e9
    result, _ = hunt(qkv(additive=additive), "float16")
    assert result.first is None
    assert result.fills == 10


def test_values_at_the_limit_overflow_in_the_context() -> None:
    """27 equal weights: 1/27 rounds up to 0.0370483, and 27 of them times 65,504 are 65,524."""
    weight = float(np.float16(1) / np.float16(27))
    assert 27 * weight * 65504 > 65520
    inputs = qkv(heads=1, kv_heads=1, queries=2, keys=27, d=4)
    inputs.q[:] = 0
    inputs.v[0, 0, :, 1] = 65504
    result, culprit = found(inputs)
    assert result.first is not None
    assert (result.first.stage, result.first.inf) == ("context", 2)
    assert result.first.words == "query 0, feature 1"
    assert (culprit.cause, culprit.passed) == ("context-overflow", 26)
    np.testing.assert_allclose(culprit.exact, 27 * weight * 65504, rtol=1e-12)


def test_the_output_projection() -> None:
    w_o = np.zeros((8, 8), np.float16)
    w_o[0, 6], w_o[1, 6] = 30_000, 1
    x = np.full((1, 4, 8), 40, np.float16)
    result, culprit = found(layer(x, {"w_o": w_o}))  # merged is 4 everywhere
    assert result.first is not None
    assert (result.first.stage, result.first.inf) == ("output", 4)
    assert culprit.passed == 0
    np.testing.assert_allclose(culprit.exact, 4 * 30_000 + 4, rtol=1e-3)


def test_an_empty_row_is_counted_and_stays_zero() -> None:
    mask = np.ones((5, 6), bool)
    mask[2] = False
    inputs = qkv(additive=np.where(mask, 0, -np.inf))
    result, output = hunt(inputs, "float16")
    assert result.first is None
    assert result.empty_rows == 2
    assert result.first_empty is not None
    assert (result.first_empty.head, result.first_empty.query) == (0, 2)
    assert not output[:, :, 2].any()


def test_blocks_are_what_the_engine_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut into blocks of two rows, every stage of the layer is the torch engine's, bit for bit."""
    monkeypatch.setattr(torch_blocks, "PAIRS", 12)
    inputs = qkv(kv_heads=1, sinks=np.array([0.5, -1.0]), softcap=20.0)
    inputs = replace(
        inputs, mask=built("causal | sink(2)", inputs), bias=np.random.default_rng(4).random((5, 6))
    )
    trace = ENGINE.run(inputs, Ask(keep=frozenset(ALL_STAGES[7:14]), dtype="bfloat16"))
    qkv_ = torch_blocks.entering(torch_blocks.given(inputs, 0, "bfloat16"))
    rows = np.arange(5)
    parts = list(torch_blocks.blocks(inputs, 0, qkv_, Way(dtype="bfloat16"), rows))
    assert len(parts) > 2
    for part in parts:
        for name, stage in part.stages.items():
            np.testing.assert_allclose(
                torch_blocks.to_float64(stage),
                trace[name][0, part.head, part.rows].astype(np.float64),
                rtol=2**-7,
                err_msg=name,
            )


def test_attempts_that_do_not_help_say_so() -> None:
    """Scaled by 1/√8 first, 1.6 million is still beyond float16."""
    inputs = qkv()
    inputs.q[0, 1, 2], inputs.k[0, 1, 4] = 400, 500
    _, culprit = found(inputs)
    first, *_, last = culprit.attempts
    assert (first.first, first.bad) == ("scores", 1)
    assert (last.what, last.first, last.largest) == ("all in float32", None, 1_600_000)


def test_a_sum_that_passes_the_limit_on_the_way_and_comes_back() -> None:
    """4 · 40,000 up and 4 · 40,000 down: the score is 0, and 160,000 is in between."""
    inputs = qkv()
    inputs.q[0, 1, 2], inputs.k[0, 1, 4] = [200] * 4 + [-200] * 4, 200
    result, _ = hunt(inputs, "float16")
    assert result.first is None
    assert (result.on_the_way, result.first_on_the_way) == (1, "head 1, query 2, key 4")
    (finding,) = [one for one in hunt_findings(result) if one.code == "sum-on-the-way"]
    assert "1 score fits float16, but its sum passes 65504 on the way" in finding.message
    assert hunt(inputs, "bfloat16")[0].on_the_way == 0
    half = torch.zeros((), dtype=torch.float16)
    for left, right in zip(inputs.q[0, 1, 2], inputs.k[0, 1, 4], strict=True):
        half = half + torch.tensor(left) * torch.tensor(right)  # what such a kernel does
    assert not bool(torch.isfinite(half))


def test_a_large_bound_alone_is_no_sum_on_the_way() -> None:
    """Σ |q·k| is 320,000, and in this order no sum is ever above 40,000."""
    inputs = qkv()
    inputs.q[0, 1, 2], inputs.k[0, 1, 4] = [200, -200] * 4, 200
    assert hunt(inputs, "float16")[0].on_the_way == 0


def test_what_is_recommended_has_been_run_and_works() -> None:
    """Scaling q first is not enough for 200,000 · √8: what is named is what is enough."""
    inputs = qkv()
    inputs.q[0, 1, 2], inputs.k[0, 1, 4] = 400, 500
    result, _ = hunt(inputs, "float16")
    (finding,) = hunt_findings(result)
    assert "What helps: all in bfloat16 (tried: every stage is finite then" in finding.message
    assert "scale q before the product: scores is not finite even then" in finding.message


def test_where_nothing_helps_nothing_is_recommended() -> None:
    inputs = qkv(dtype="float64")
    inputs.q[0, 1, 2], inputs.k[0, 1, 4] = 1e160, 1e160
    result, culprit = found(inputs, "float64")
    assert all(attempt.first is not None for attempt in culprit.attempts)
    (finding,) = hunt_findings(result)
    assert "Nothing that was tried is enough" in finding.message
    assert "What helps" not in finding.message


def test_grouped_heads_and_later_items_are_named() -> None:
    rng = np.random.default_rng(0)
    q = rng.standard_normal((2, 4, 3, 8)).astype(np.float16)
    k, v = (rng.standard_normal((2, 2, 5, 8)).astype(np.float16) for _ in range(2))
    q[1, 3, 2], k[1, 1, 4] = 100, 100  # query head 3 reads key head 1
    result, culprit = found(AttentionInputs(q=q, k=k, v=v))
    assert where(result) == {"batch": 1, "head": 3, "query": 2, "key": 4}
    assert culprit.where == "item 1, head 3, query 2, key 4"
    assert culprit.exact == 80_000
