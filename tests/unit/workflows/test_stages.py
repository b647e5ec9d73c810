"""Stages by name: which a run takes, which it can give, and what it says of the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attn_cli.core.engine import Ask
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.layer import split_heads
from attn_cli.core.rounding import round_to
from attn_cli.core.steps import steps
from attn_cli.core.trace import ALL_STAGES, Trace
from attn_cli.engines import ENGINES
from attn_cli.errors import InputError
from attn_cli.workflows.stages import check_stages, known_stages, taken_stages
from tests.agreement.holding import STEPWISE
from tests.agreement.samples import drawn


def vectors() -> AttentionInputs:
    x = np.random.default_rng(1).normal(size=(2, 5, 6))
    heads = split_heads(x, 2)
    return AttentionInputs(heads, heads, heads, x=x)


def everything(engine: str, inputs: AttentionInputs, dtype: str) -> Trace:
    return ENGINES[engine].run(inputs, Ask(keep=frozenset(ALL_STAGES), dtype=dtype))


def test_a_stage_that_does_not_exist_suggests_the_near_one() -> None:
    with pytest.raises(InputError, match=r"no stage 'wieghts' \(did you mean 'weights'"):
        check_stages(vectors(), frozenset({"wieghts"}))


def test_taken_stages_are_those_of_the_shape_trace() -> None:
    assert taken_stages(drawn(1, scale=1.0)) == {
        "q", "k", "v", "scores", "weights", "context", "output",
    }  # fmt: skip
    assert {"x", "merged"} <= taken_stages(vectors())


@pytest.mark.parametrize("engine", STEPWISE)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_token_vectors_are_merged(engine: str, dtype: str) -> None:
    inputs = vectors()
    trace = everything(engine, inputs, dtype)
    assert frozenset(trace.stages) == known_stages(inputs) == frozenset(ALL_STAGES)
    context = trace["context"]
    expected = np.concatenate([context[:, 0], context[:, 1]], -1)  # head 0 first
    np.testing.assert_array_equal(trace["merged"], expected)
    np.testing.assert_array_equal(trace["output"], expected)
    np.testing.assert_array_equal(trace["x"], round_to(np.asarray(inputs.x), dtype))
    for step in steps(inputs, dtype):
        assert trace.stages[step.stage].array.shape == step.shape
        assert trace.stages[step.stage].axes == step.axes
        assert trace.stages[step.stage].dtype == step.dtype == dtype


@pytest.mark.parametrize("engine", STEPWISE)
def test_without_token_vectors_the_output_is_the_context(engine: str) -> None:
    inputs = drawn(2, d_v=3)
    trace = everything(engine, inputs, "float64")
    np.testing.assert_array_equal(trace["output"], trace["context"])
    for missing in ("x", "merged"):
        assert missing not in trace.stages
        with pytest.raises(InputError, match=f"no stage '{missing}' .output is the context"):
            check_stages(inputs, frozenset({missing}))


def test_bfloat16_inputs_are_shown_as_the_engine_takes_them() -> None:
    inputs = replace(drawn(3), scale=1.0)
    q = everything("torch", inputs, "bfloat16").stages["q"]
    assert q.dtype == "bfloat16"
    np.testing.assert_array_equal(q.array, round_to(inputs.q, "bfloat16"))
