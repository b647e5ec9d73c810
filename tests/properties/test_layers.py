"""Layers of any sizes: the engines agree on every stage, and a permutation moves what it should."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attn_cli.core.budget import measure_budget
from attn_cli.core.compare import compare
from attn_cli.core.engine import Ask
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.layer import merge_heads
from attn_cli.core.trace import Trace
from attn_cli.engines import ENGINES
from attn_cli.positions.alibi import Alibi, slopes
from attn_cli.positions.rope import Rope
from attn_cli.workflows.stages import known_stages
from tests.agreement.holding import STEPWISE
from tests.agreement.layer_samples import layer, masked

DTYPES = ("float64", "float32", "float16")


@st.composite
def layers(draw: st.DrawFn) -> AttentionInputs:
    """A layer with everything that may be there or not."""
    kv_heads = draw(st.integers(1, 3))
    heads = kv_heads * draw(st.integers(1, 3))
    more: dict[str, Any] = {}
    if draw(st.booleans()):
        base = draw(st.sampled_from([10.0, 10_000.0]))
        more["rotation"] = draw(st.sampled_from([Rope("half", base), Rope("interleaved", base)]))
    if draw(st.booleans()):
        more["position_bias"] = Alibi(slopes(heads))
    context = draw(st.none() | st.tuples(st.integers(1, 6), st.integers(1, 9)))
    length = draw(st.integers(1, 6))
    unequal = context is not None and context[0] != length
    inputs = layer(
        draw(st.integers(0, 10**6)),
        batch=draw(st.integers(1, 2)),
        length=length,
        d_model=draw(st.integers(1, 12)),
        heads=heads,
        kv_heads=kv_heads,
        d_k=2 * draw(st.integers(1, 4)),
        d_v=draw(st.integers(1, 8)),
        biases=draw(st.booleans()),
        output=draw(st.booleans()),
        encoding=draw(st.booleans()),
        context=context,
        q_offset=draw(st.integers(0, 50)) if more or not unequal else None,
        **more,
    )
    return masked(inputs, "causal") if draw(st.booleans()) and not unequal else inputs


def run(engine: str, inputs: AttentionInputs, dtype: str = "float64") -> Trace:
    return ENGINES[engine].run(inputs, Ask(keep=known_stages(inputs), dtype=dtype))


@settings(max_examples=60)
@given(layers(), st.sampled_from(DTYPES))
def test_numpy_and_torch_agree_on_every_stage(inputs: AttentionInputs, dtype: str) -> None:
    oracle = {name: stage.array for name, stage in run("numpy", inputs).stages.items()}
    budget = measure_budget(inputs, oracle, dtype=dtype)
    for engine in STEPWISE:
        trace = run(engine, inputs, dtype)
        for name, right in oracle.items():
            diff = compare(trace[name], right, budget=budget[name], dtype=dtype)
            assert diff.verdict != "different", f"{engine} {dtype} {name}: {diff}"


@settings(max_examples=40)
@given(layers())
def test_the_stages_fit_together(inputs: AttentionInputs) -> None:
    """merged is the context's heads side by side, and x the token vectors themselves."""
    trace = run("torch", inputs)
    assert inputs.x is not None
    np.testing.assert_array_equal(trace["x"], inputs.x)
    np.testing.assert_array_equal(trace["merged"], merge_heads(trace["context"]))
    np.testing.assert_allclose(trace["q"], inputs.q, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(trace["v"], inputs.v, rtol=1e-9, atol=1e-11)
    for step in trace.shapes:
        assert trace[step.stage].shape == step.shape
        assert len(step.axes) == len(step.shape)
