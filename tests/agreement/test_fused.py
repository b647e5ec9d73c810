"""Engines that show some stages only: every mask × kind × precision against numpy in float64.

What an engine refuses is refused here by name and counted, so that nothing vanishes unseen.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from attn_cli.core.budget import measure_budget
from attn_cli.core.compare import compare
from attn_cli.core.engine import Ask, refusal
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.trace import STAGES, Trace
from attn_cli.engines import ENGINES
from attn_cli.stats import STATISTICS
from benchmarks.false_alarms import expected
from tests.agreement.holding import (
    CPU_DTYPES,
    STEPWISE,
    Oracle,
    assert_stages_agree,
    assert_statistics_agree,
    fits,
)
from tests.agreement.layer_samples import layer
from tests.agreement.samples import MASK_SAMPLES, SAMPLES, built, drawn, stored
from tests.agreement.test_layers import budget_of, oracle_of

PARTIAL = [engine for engine in ENGINES if engine not in STEPWISE]
ON_CPU = [(engine, dtype) for engine, dtype in CPU_DTYPES if engine in PARTIAL]
TEXTS = [text for texts in MASK_SAMPLES.values() for text in texts]
KINDS = ("heads", "grouped", "cross")

# What each engine refuses of SAMPLES, whatever the precision; the others take all of them.
ALWAYS = {"softcap", "sinks", "everything"}
MHA = {
    *ALWAYS, "grouped", "one_kv_head", "wide_values", "narrow_values", "strided", "fortran",
    "many_keys", "large_scores", "unscaled", "negative_scale",
}  # fmt: skip
FLASH = {*ALWAYS, "wide_values", "narrow_values", "many_keys", "strided", "fortran"}
REFUSED = {
    "sdpa": ALWAYS,
    "sdpa:math": ALWAYS,
    "sdpa:flash": FLASH,
    "mha": MHA,
    "flex": {"sinks", "everything"},
    "tiled": set(),
}


def shown(engine: str, inputs: AttentionInputs, dtype: str = "float64") -> Trace:
    """All that the engine shows, with statistics where it has them."""
    can = ENGINES[engine].can
    stats = [STATISTICS[name] for name in STATISTICS] if can.rows(inputs) else []
    return ENGINES[engine].run(inputs, Ask(keep=can.known(inputs), stats=stats, dtype=dtype))


def reason(engine: str, inputs: AttentionInputs, dtype: str = "float64") -> str | None:
    return refusal(ENGINES[engine], inputs, Ask(dtype=dtype))


@cache
def under(text: str, kind: str) -> Oracle:
    """Two items under a mask: equal heads, grouped heads, or four queries behind three keys."""
    heads, offset = (4, 0) if kind == "grouped" else (2, 3 if kind == "cross" else 0)
    plain = drawn(80, batch=2, heads=heads, kv_heads=2, queries=7 - offset, keys=7, q_offset=offset)
    array = np.random.default_rng(81).random((2, 7 - offset, 7)) < 0.6
    return Oracle(replace(plain, mask=built(text, plain, load=lambda path: array)))


@cache
def of_sample(name: str) -> Oracle:
    return Oracle(SAMPLES[name]())


@pytest.mark.usefixtures("untraced_flex")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine, dtype", ON_CPU)
def test_an_engine_agrees_under_every_mask(engine: str, dtype: str, kind: str) -> None:
    refused, compared = [], 0
    for text in TEXTS:
        oracle = under(text, kind)
        why = reason(engine, oracle.inputs, dtype)
        if why is not None:
            refused.append(why)
            continue
        trace = shown(engine, oracle.inputs, dtype)
        assert_stages_agree(oracle, trace, dtype)
        compared += len(oracle.diffs(trace, dtype))
    if (engine, kind) == ("mha", "grouped"):
        assert len(refused) == len(TEXTS)
        pytest.skip(refused[0])
    assert refused == []
    assert compared == len(TEXTS) * (2 if engine == "mha" else 1)


@pytest.mark.parametrize("engine, dtype", ON_CPU)
@pytest.mark.usefixtures("untraced_flex")
def test_an_engine_agrees_on_every_sample_it_takes(engine: str, dtype: str) -> None:
    refused = {name for name in SAMPLES if reason(engine, of_sample(name).inputs, dtype)}
    assert refused == REFUSED[engine]
    for name in sorted(set(SAMPLES) - refused):
        oracle = of_sample(name)
        if not fits(oracle.inputs, dtype):
            continue
        trace = shown(engine, oracle.inputs, dtype)
        assert_stages_agree(oracle, trace, dtype)
        assert_right_rows(oracle, trace, dtype)


@pytest.mark.parametrize("name", ["everything", "additive_inf"])
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_flex_gives_the_same_bits_traced_and_untraced(
    dtype: str, name: str, request: pytest.FixtureRequest
) -> None:
    inputs = replace(of_sample(name).inputs, sinks=None)
    traced = shown("flex", inputs, dtype)
    request.getfixturevalue("untraced_flex")
    untraced = shown("flex", inputs, dtype)
    np.testing.assert_array_equal(traced["context"], untraced["context"], strict=True)
    assert traced.lse is not None
    assert untraced.lse is not None
    np.testing.assert_array_equal(traced.lse, untraced.lse, strict=True)


def assert_right_rows(oracle: Oracle, trace: Trace, dtype: str) -> None:
    """Statistics and lse as far as the engine has them; empty rows where they are."""
    np.testing.assert_array_equal(trace.empty, oracle.trace.empty)
    if trace.stats and not trace.empty.any():
        assert_statistics_agree(oracle, trace, dtype)
    assert (trace.lse is not None) == ENGINES[trace.engine].can.lse
    if trace.lse is not None:
        bound = {"float64": 1e-12, "float32": 1e-5, "float16": 1e-2, "bfloat16": 0.1}[dtype]
        right = oracle.trace.lse
        assert right is not None
        size = 1 + np.abs(oracle.stages["masked"], where=oracle.stages["masked"] > -1e4,
                          out=np.zeros_like(oracle.stages["masked"])).max(-1)  # fmt: skip
        with np.errstate(invalid="ignore"):
            near = np.abs(trace.lse - right) <= bound * size
        assert (near | (trace.lse == right) | (right < -1e4)).all()


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("engine", REFUSED)
def test_a_layer_around_it_agrees_to_the_output(engine: str, dtype: str) -> None:
    compared = []
    for name in ("added_positions", "grouped", "rope_half", "alibi", "another_sequence"):
        inputs, oracle = oracle_of(name)
        if reason(engine, inputs, dtype) is None:
            trace = shown(engine, inputs, dtype)
            for stage in trace.stages:
                budget = budget_of(name, dtype)[stage]
                diff = compare(trace[stage], oracle[stage], budget=budget, dtype=dtype)
                assert diff.verdict != "different", f"{name} {stage}: {diff}"
            compared += ["output" in trace.stages]
    # d_v is 6 beside a d_k of 4 in all but rope_half, where it is 6 beside 8
    assert compared == [True] * (5 if engine not in ("mha", "sdpa:flash") else 0)


@pytest.mark.parametrize("engine", [e for e in ENGINES if ENGINES[e].can.devices == ("cuda",)])
def test_an_engine_for_the_gpu(engine: str) -> None:
    why = reason(engine, drawn(1), "float16")
    assert why == f"engine {engine} needs a GPU: it runs on cuda, not on cpu"
    if not torch.cuda.is_available():
        pytest.skip(why)
    oracle = Oracle(drawn(82, batch=2, d_k=64, d_v=64, queries=32, keys=32))
    ask = Ask(keep=frozenset({"context"}), dtype="float16", device="cuda")
    trace = ENGINES[engine].run(oracle.inputs, ask)
    assert_stages_agree(oracle, trace, "float16")


@pytest.mark.parametrize("engine", REFUSED)
def test_what_stands_in_an_empty_row_is_what_is_declared(engine: str) -> None:
    keep = np.ones((5, 5))
    keep[2] = 0
    plain = drawn(83, batch=2)
    trace = shown(engine, replace(plain, mask=stored(keep, plain.shape)))
    fill = ENGINES[engine].can.empty_row
    for name in {"weights", "context"} & set(trace.stages):
        np.testing.assert_array_equal(
            trace[name][:, :, 2], np.full_like(trace[name][:, :, 2], fill)
        )
        assert np.isfinite(np.delete(trace[name], 2, axis=2)).all()
    assert trace.empty.sum() == 4
    added = np.where(keep, 0, np.finfo(np.float32).min)
    filled = shown(engine, replace(plain, additive=added))["context"][:, :, 2]
    np.testing.assert_allclose(filled, shown(engine, plain)["context"][:, :, 2], atol=1)
    assert not filled.any() if np.isnan(filled).any() else filled.any()  # neither 0 nor NaN


@pytest.mark.parametrize("engine", ["sdpa", "sdpa:math", "sdpa:flash"])
def test_nan_in_a_hidden_value_reaches_every_row(engine: str) -> None:
    """0·NaN is formed: as PyTorch has it, and as the finding hidden-nonfinite says."""
    plain = drawn(84)
    v = plain.v.copy()
    v[0, 1, 4, 0] = np.nan
    inputs = replace(plain, v=v, mask=built("padding(4)", plain))
    context = shown(engine, inputs)["context"]
    assert np.isnan(context[0, 1, :, 0]).all()
    assert np.isfinite(context[0, 0]).all()


@pytest.mark.parametrize("engine", ["sdpa", "sdpa:math", "sdpa:flash", "mha", "flex", "tiled"])
@pytest.mark.parametrize("queries, offset", [(7, 0), (4, 3), (4, 0), (9, -2)])
def test_the_alignment_decides_and_not_is_causal(engine: str, queries: int, offset: int) -> None:
    plain = drawn(85, queries=queries, keys=7, q_offset=offset)
    inputs = replace(plain, mask=built("causal", plain))
    right = expected(engine, shown("numpy", inputs), "context")
    assert right is not None
    np.testing.assert_allclose(shown(engine, inputs)["context"], right, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("engine", PARTIAL)
def test_a_stage_that_is_not_shown_is_absent(engine: str, stage: str) -> None:
    inputs, can = drawn(86), ENGINES[engine].can
    if stage not in can.stages:
        assert stage not in can.known(inputs)
        why = refusal(
            ENGINES[engine],
            inputs,
            Ask(
                keep=frozenset({stage}),
                dtype="float16",
                device=can.devices[0].replace("any", "cpu"),
            ),
        )
        assert why is not None
        assert why.startswith(f"engine {engine} does not show {stage} (it shows q, k, v, ")


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("context", [None, (7, 9)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_mha_does_the_projections_itself_where_they_fit(
    dtype: str, context: tuple[int, int] | None, biases: bool
) -> None:
    inputs = layer(87, d_model=8, d_k=4, d_v=4, biases=biases, context=context, q_offset=None)
    oracle = shown("numpy", inputs)
    trace = shown("mha", inputs, dtype)
    assert set(trace.stages) == {"x", "x_positions", "weights", "output"}
    assert "own in_proj and out_proj" in trace.findings[0].message
    right = {name: oracle[name] for name in ("weights", "output")}
    budget = measure_budget(inputs, right, dtype=dtype)
    for name in right:
        diff = compare(trace[name], right[name], budget=budget[name], dtype=dtype)
        assert diff.verdict == "rounding", f"{name}: {diff}"
