"""Stages around the core: x, q, k, v as the run rounds them, merged heads, the output."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.layer import split_heads
from attn_cli.core.rounding import round_to
from attn_cli.core.steps import steps
from attn_cli.core.trace import ALL_STAGES, STAGES
from attn_cli.errors import InputError
from attn_cli.workflows.stages import engine_stages, taken_stages, with_surroundings
from tests.agreement.holding import run
from tests.agreement.samples import drawn


def vectors() -> AttentionInputs:
    x = np.random.default_rng(1).normal(size=(2, 5, 6))
    heads = split_heads(x, 2)
    return AttentionInputs(heads, heads, heads, x=x)


def test_an_engine_keeps_only_what_is_its_own() -> None:
    assert engine_stages(frozenset({"q", "weights"})) == {"weights"}
    assert engine_stages(frozenset({"output"})) == {"context"}
    assert engine_stages(frozenset({"merged", "scores"})) == {"context", "scores"}
    assert engine_stages(frozenset()) == frozenset()


def test_a_stage_that_does_not_exist_suggests_the_near_one() -> None:
    with pytest.raises(InputError, match=r"no stage 'wieghts' \(did you mean 'weights'"):
        engine_stages(frozenset({"wieghts"}))


def test_taken_stages_are_those_of_the_shape_trace() -> None:
    assert taken_stages(drawn(1, scale=1.0)) == {
        "q", "k", "v", "scores", "weights", "context", "output",
    }  # fmt: skip
    assert {"x", "merged"} <= taken_stages(vectors())


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_token_vectors_are_merged(dtype: str) -> None:
    inputs = vectors()
    trace = run("numpy", inputs, dtype)
    stages = with_surroundings(inputs, trace, frozenset(ALL_STAGES))
    assert list(stages) == list(ALL_STAGES)
    context = trace["context"]
    expected = np.concatenate([context[:, 0], context[:, 1]], -1)  # head 0 first
    np.testing.assert_array_equal(stages["merged"].array, expected)
    np.testing.assert_array_equal(stages["output"].array, expected)
    np.testing.assert_array_equal(stages["x"].array, round_to(inputs.x, dtype))  # type: ignore[arg-type]
    for step in steps(inputs, dtype):
        assert stages[step.stage].array.shape == step.shape
        assert stages[step.stage].axes == step.axes
        assert stages[step.stage].dtype == step.dtype == dtype


def test_without_token_vectors_the_output_is_the_context() -> None:
    inputs = drawn(2, d_v=3)
    trace = run("numpy", inputs)
    stages = with_surroundings(inputs, trace, frozenset({"output", "q", *STAGES}))
    np.testing.assert_array_equal(stages["output"].array, trace["context"])
    for missing in ("x", "merged"):
        with pytest.raises(InputError, match=f"no stage '{missing}' .output is the context"):
            with_surroundings(inputs, trace, frozenset({missing}))


def test_bfloat16_inputs_are_shown_as_the_engine_takes_them() -> None:
    inputs = replace(drawn(3), scale=1.0)
    trace = run("torch", inputs, "bfloat16")
    q = with_surroundings(inputs, trace, frozenset({"q"}))["q"]
    assert q.dtype == "bfloat16"
    np.testing.assert_array_equal(q.array, round_to(inputs.q, "bfloat16"))
