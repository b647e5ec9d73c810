"""The shape trace: which steps are taken, in which words, and that engines take the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attn_cli.core.steps import steps
from attn_cli.core.trace import STAGES
from tests.agreement.holding import STEPWISE, run
from tests.agreement.samples import SAMPLES, built, drawn


def formulas(**more: object) -> dict[str, str]:
    plain = drawn(1, batch=2, queries=3, keys=4, d_k=4, d_v=6)
    inputs = replace(plain, **more)  # type: ignore[arg-type]
    return {step.stage: step.formula for step in steps(inputs, "float64")}


def test_only_steps_that_change_something_are_taken() -> None:
    assert list(formulas(scale=1.0)) == [
        "q", "k", "v", "scores", "weights", "context", "output",
    ]  # fmt: skip
    every = formulas(softcap=5.0, bias=np.zeros((3, 4)), additive=np.zeros((3, 4)))
    assert list(every) == ["q", "k", "v", *STAGES, "output"]


def test_formulas_say_what_is_done() -> None:
    said = formulas(softcap=30.0, bias=np.zeros((3, 4)), sinks=np.zeros(2))
    assert said["scaled"] == "scores ÷ √4"
    assert said["softcapped"] == "30 · tanh(scaled ÷ 30)"
    assert said["biased"] == "+ bias"
    assert said["weights"] == "softmax over key, a sink in the denominator"
    assert formulas(scale=0.125)["scaled"] == "scores × 0.125"
    assert formulas()["weights"] == "softmax over key"


def test_masks_in_words() -> None:
    causal = built("causal", drawn(1, batch=2, queries=3, keys=4))
    additive, bias = np.zeros((3, 4)), np.full((3, 4), -np.inf)
    assert formulas(mask=causal)["masked"] == "−∞ where hidden"
    assert formulas(additive=additive)["masked"] == "+ mask"
    assert formulas(additive=additive, mask=causal)["masked"] == "+ mask, −∞ where hidden"
    assert formulas(bias=bias)["masked"] == "−∞ where hidden"
    assert "masked" not in formulas()


def test_token_vectors_are_split_and_merged() -> None:
    plain = drawn(2, batch=2, heads=2, d_k=4, d_v=4)
    shapes = {
        step.stage: (step.axes, step.shape, step.formula)
        for step in steps(replace(plain, x=np.zeros((2, 5, 8))), "float32")
    }
    assert shapes["x"] == (("batch", "query", "d_model"), (2, 5, 8), "token vectors")
    assert shapes["q"][2] == "x split into heads"
    assert shapes["merged"] == (("batch", "query", "d_model"), (2, 5, 8), "heads side by side")
    assert shapes["output"][1:] == ((2, 5, 8), "= merged")
    assert shapes["context"][1] == (2, 2, 5, 4)


@pytest.mark.parametrize("sample", list(SAMPLES))
@pytest.mark.parametrize("engine", STEPWISE)
def test_shapes_are_those_of_the_arrays(engine: str, sample: str) -> None:
    inputs = SAMPLES[sample]()
    trace = run(engine, inputs, "float32")
    assert trace.shapes == steps(inputs, "float32")
    for step in trace.shapes:
        if step.stage in STAGES:
            assert trace[step.stage].shape == step.shape
            assert trace.stages[step.stage].axes == step.axes
        assert len(step.axes) == len(step.shape)
        assert step.to_dict()["shape"] == list(step.shape)
