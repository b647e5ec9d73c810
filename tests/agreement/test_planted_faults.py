"""Faults planted on purpose are found, in their stage; the assertions of these tests can fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from attn_cli.core.inputs import Array, AttentionInputs
from attn_cli.core.rounding import round_to
from attn_cli.core.trace import STAGES, Trace
from tests.agreement.holding import (
    STEPWISE,
    Oracle,
    assert_stages_agree,
    assert_statistics_agree,
    run,
    with_stage,
)
from tests.agreement.samples import built, drawn, stored


@pytest.fixture(scope="module")
def inputs() -> AttentionInputs:
    plain = drawn(70, batch=2, heads=4, kv_heads=2, queries=7, keys=7, d_v=5)
    return replace(plain, mask=built("causal", plain))


@pytest.fixture(scope="module")
def oracle(inputs: AttentionInputs) -> Oracle:
    return Oracle(inputs)


def different(oracle: Oracle, trace: Trace, dtype: str) -> list[str]:
    """The stages that are called different, in the order of the formula."""
    return [
        name for name, diff in oracle.diffs(trace, dtype).items() if diff.verdict == "different"
    ]


@pytest.mark.parametrize("engine", STEPWISE)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_a_scale_one_percent_off_is_found_where_it_is_applied(
    engine: str, dtype: str, inputs: AttentionInputs, oracle: Oracle
) -> None:
    off = replace(inputs, scale=inputs.effective_scale * 1.01)
    assert different(oracle, run(engine, off, dtype), dtype)[0] == "scaled"


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("name, stage", [("q", "scores"), ("k", "scores"), ("v", "context")])
def test_swapped_heads_are_found(
    name: str, stage: str, dtype: str, inputs: AttentionInputs, oracle: Oracle
) -> None:
    swapped = getattr(inputs, name)[:, ::-1]
    trace = run("torch", replace(inputs, **{name: swapped}), dtype)
    assert different(oracle, trace, dtype)[0] == stage


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("cell", [(0, 0, 0, 1), (1, 3, 6, 0), (0, 2, 3, 3)])
def test_one_flipped_cell_of_the_mask_is_found(
    cell: tuple[int, ...], dtype: str, inputs: AttentionInputs, oracle: Oracle
) -> None:
    keep = inputs.keep().copy()
    keep[cell] = ~keep[cell]
    trace = run("torch", replace(inputs, mask=stored(keep, inputs.shape)), dtype)
    found = different(oracle, trace, dtype)
    assert found[0] == "masked"
    diff = oracle.diffs(trace, dtype)["masked"]
    assert (diff.nonfinite, diff.beyond) == (1, 1)


def test_bfloat16_where_float32_was_claimed_is_found(
    inputs: AttentionInputs, oracle: Oracle
) -> None:
    trace = run("torch", inputs, "bfloat16")
    assert different(oracle, trace, "bfloat16") == []
    assert different(oracle, trace, "float32") == list(STAGES)


@pytest.mark.parametrize("stage", STAGES)
def test_one_stage_rounded_to_bfloat16_is_found(
    stage: str, inputs: AttentionInputs, oracle: Oracle
) -> None:
    trace = with_stage(
        run("torch", inputs, "float32"), stage, lambda array: round_to(array, "bfloat16")
    )
    assert different(oracle, trace, "float32") == [stage]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_one_element_that_is_not_finite_is_found(
    stage: str, value: float, inputs: AttentionInputs, oracle: Oracle
) -> None:
    def planted(array: Array) -> Array:
        array[1, 2, 3, 1] = value
        return array

    trace = with_stage(run("numpy", inputs), stage, planted)
    assert different(oracle, trace, "float64") == [stage]
    assert oracle.diffs(trace, "float64")[stage].where == (1, 2, 3, 1)


@pytest.mark.parametrize("stage", STAGES)
def test_one_element_a_little_off_is_found_with_its_place(
    stage: str, inputs: AttentionInputs, oracle: Oracle
) -> None:
    """Sums and norms would not see it: one weight up, its neighbour down by as much."""

    def planted(array: Array) -> Array:
        array[1, 2, 6, 1] += 2e-4
        array[1, 2, 6, 2] -= 1e-4
        return array

    trace = with_stage(run("numpy", inputs, "float32"), stage, planted)
    assert different(oracle, trace, "float32") == [stage]
    assert oracle.diffs(trace, "float32")[stage].where == (1, 2, 6, 1)


def test_the_assertions_on_a_trace_can_fail(inputs: AttentionInputs, oracle: Oracle) -> None:
    right = run("torch", inputs)
    assert_stages_agree(oracle, right, "float64")
    assert_statistics_agree(oracle, right, "float64")
    wrong = run("torch", replace(inputs, scale=inputs.effective_scale * 1.01))
    with pytest.raises(AssertionError, match="scaled"):
        assert_stages_agree(oracle, wrong, "float64")
    with pytest.raises(AssertionError):
        assert_statistics_agree(oracle, wrong, "float64")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_fault_in_any_one_statistic_is_found(
    dtype: str, inputs: AttentionInputs, oracle: Oracle
) -> None:
    for name in run("torch", inputs, dtype).stats:
        trace = run("torch", inputs, dtype)
        trace.stats[name][1, 2, 3] *= 1.001
        with pytest.raises(AssertionError, match=name):
            assert_statistics_agree(oracle, trace, dtype)
        trace.stats[name][1, 2, 3] = float("nan")
        with pytest.raises(AssertionError, match=name):
            assert_statistics_agree(oracle, trace, dtype)
