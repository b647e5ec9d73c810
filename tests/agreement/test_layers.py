"""Every engine × layer × precision: every stage from x to output against numpy in float64."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from attn_cli.core.budget import measure_budget
from attn_cli.core.compare import StageDiff, compare
from attn_cli.core.engine import Ask
from attn_cli.core.inputs import Array, AttentionInputs
from attn_cli.core.plain import plain_item
from attn_cli.core.plain_layer import PlainLayer
from attn_cli.core.trace import ALL_STAGES, Trace
from attn_cli.engines import ENGINES
from attn_cli.workflows.stages import known_stages
from benchmarks.false_alarms import count
from tests.agreement.holding import ENGINE_DTYPES
from tests.agreement.layer_samples import LAYERS, layer

BEFORE_SCORES = ("x", "x_positions", "q", "k", "v", "q_rotated", "k_rotated")


def run(engine: str, inputs: AttentionInputs, dtype: str) -> Trace:
    """Every stage that the layer has."""
    return ENGINES[engine].run(inputs, Ask(keep=known_stages(inputs), dtype=dtype))


@cache
def oracle_of(sample: str) -> tuple[AttentionInputs, dict[str, Array]]:
    inputs = LAYERS[sample]()
    trace = run("numpy", inputs, "float64")
    return inputs, {name: stage.array for name, stage in trace.stages.items()}


@cache
def budget_of(sample: str, dtype: str) -> dict[str, Array]:
    inputs, oracle = oracle_of(sample)
    return measure_budget(inputs, oracle, dtype=dtype)


def diffs(sample: str, trace: Trace, dtype: str) -> dict[str, StageDiff]:
    oracle, budget = oracle_of(sample)[1], budget_of(sample, dtype)
    return {
        name: compare(trace[name], oracle[name], budget=budget[name], dtype=dtype)
        for name in oracle
    }


@pytest.mark.parametrize("sample", LAYERS)
@pytest.mark.parametrize("engine, dtype", ENGINE_DTYPES)
def test_an_engine_agrees_on_every_stage_of_a_layer(engine: str, dtype: str, sample: str) -> None:
    found = diffs(sample, run(engine, oracle_of(sample)[0], dtype), dtype)
    assert {name: diff for name, diff in found.items() if diff.verdict == "different"} == {}


@pytest.mark.parametrize("sample", LAYERS)
def test_stages_come_in_the_order_of_the_formula(sample: str) -> None:
    inputs, oracle = oracle_of(sample)
    every = [name for name in ALL_STAGES if inputs.x is not None or name in known_stages(inputs)]
    assert list(oracle) == every


@pytest.mark.parametrize("sample", LAYERS)
def test_a_budget_has_an_entry_for_each_item_and_head(sample: str) -> None:
    inputs, oracle = oracle_of(sample)
    batch, heads, _, _ = inputs.shape
    for name, budget in budget_of(sample, "float32").items():
        with_heads = inputs.kv_heads if name in ("k", "v", "k_rotated") else heads
        axes = (batch, 1, 1) if oracle[name].ndim == 3 else (batch, with_heads, 1, 1)
        assert budget.shape == axes, name
        assert (budget > 0).all()


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("sample", LAYERS)
def test_a_plain_run_is_the_layer_by_itself(sample: str, fused: bool) -> None:
    inputs, oracle = oracle_of(sample)
    b = inputs.shape[0] - 1
    *orders, rng = (np.random.default_rng([5, h]) for h in range(inputs.shape[1] + 1))
    layer = PlainLayer("float64", rng, fused=fused)
    seen = list(plain_item(inputs, b, layer=layer, orders=orders))
    for name, head, array in seen:
        right = oracle[name][b] if head is None else oracle[name][b, head]
        np.testing.assert_allclose(array, right, rtol=1e-9, atol=1e-11, err_msg=name)
    assert {name for name, _, _ in seen} == set(oracle)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("stage", [*BEFORE_SCORES, "merged", "output"])
def test_one_element_a_little_off_is_found_in_its_stage(stage: str, dtype: str) -> None:
    engine = "torch"
    trace = run(engine, oracle_of("everything")[0], dtype)
    array = trace.stages[stage].array
    budget = np.broadcast_to(budget_of("everything", dtype)[stage], array.shape)
    array[1, ..., 2, 1] += 3 * budget[1, ..., 2, 1]
    found = diffs("everything", trace, dtype)
    assert [name for name, diff in found.items() if diff.verdict == "different"] == [stage]
    assert found[stage].where[0] == 1


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_the_other_pairing_of_rope_is_found(dtype: str) -> None:
    """The same numbers turned in other pairs: no norm and no row sum would tell."""
    half, interleaved = LAYERS["rope_half"](), LAYERS["rope_interleaved"]()
    wrong = layer(110, d_k=8, rotation=interleaved.rotation)
    assert half.rotation != wrong.rotation
    found = diffs("rope_half", run("torch", wrong, dtype), dtype)
    first = next(name for name, diff in found.items() if diff.verdict == "different")
    assert first == "q_rotated"


@pytest.mark.parametrize("sample", ["biases", "rope_half", "grouped", "added_positions", "alibi"])
def test_bfloat16_where_float32_was_claimed_is_found_in_every_stage(sample: str) -> None:
    trace = run("torch", oracle_of(sample)[0], "bfloat16")
    found = diffs(sample, trace, "float32")
    assert [name for name, diff in found.items() if diff.verdict != "different"] == []


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name, stage", [("q", "q"), ("k", "k"), ("v", "v"), ("o", "output")])
def test_a_bias_five_percent_off_is_found_where_it_is_added(
    name: str, stage: str, dtype: str
) -> None:
    inputs = oracle_of("biases")[0]
    assert inputs.origin is not None
    assert inputs.origin.projections is not None
    bias = getattr(inputs.origin.projections, f"b_{name}")
    off = replace(inputs.origin.projections, **{f"b_{name}": 1.05 * bias})
    wrong = replace(inputs, origin=replace(inputs.origin, projections=off))
    found = diffs("biases", run("torch", wrong, dtype), dtype)
    assert next(name for name, diff in found.items() if diff.verdict == "different") == stage


def test_no_false_alarm_in_hundreds_of_stages_of_layers() -> None:
    verdicts, alarms = count(32, seed=3, longest=12, layers=True)
    assert sum(verdicts.values()) >= 300
    assert alarms == []
