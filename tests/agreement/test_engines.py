"""Every engine × sample × precision: every stage and statistic against numpy in float64."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from attn_cli.masks import MASKS
from attn_cli.masks.expression import parse
from tests.agreement.holding import (
    ENGINE_DTYPES,
    STEPWISE,
    Oracle,
    assert_stages_agree,
    assert_statistics_agree,
    fits,
    run,
)
from tests.agreement.samples import ALIGNMENTS, MASK_SAMPLES, SAMPLES, masked_sample

TEXTS = [text for texts in MASK_SAMPLES.values() for text in texts]


@cache
def oracle_of(sample: str) -> Oracle:
    return Oracle(SAMPLES[sample]())


@cache
def oracle_under(text: str, queries: int, q_offset: int) -> Oracle:
    return Oracle(masked_sample(text, queries, q_offset))


FITTING = [
    (engine, dtype, sample)
    for engine, dtype in ENGINE_DTYPES
    for sample in SAMPLES
    if fits(SAMPLES[sample](), dtype)  # −1e9 does not fit float16: see test_nonfinite
]


@pytest.mark.parametrize("engine, dtype, sample", FITTING)
def test_an_engine_agrees_on_a_sample(engine: str, dtype: str, sample: str) -> None:
    oracle = oracle_of(sample)
    trace = run(engine, oracle.inputs, dtype)
    assert_stages_agree(oracle, trace, dtype)
    assert_statistics_agree(oracle, trace, dtype)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("engine, dtype", ENGINE_DTYPES)
def test_an_engine_agrees_under_a_mask(engine: str, dtype: str, text: str) -> None:
    narrow = dtype in ("float16", "bfloat16")
    for queries, q_offset in ALIGNMENTS[:1] if narrow else ALIGNMENTS:
        if "global" in text and q_offset < 0:
            continue  # its positions are counted from 0
        oracle = oracle_under(text, queries, q_offset)
        trace = run(engine, oracle.inputs, dtype)
        assert_stages_agree(oracle, trace, dtype)
        assert_statistics_agree(oracle, trace, dtype)


def test_every_mask_has_a_sample_that_uses_it() -> None:
    assert set(MASK_SAMPLES) == set(MASKS)
    for name, texts in MASK_SAMPLES.items():
        assert texts
        assert all(name in parse(text).names_used() for text in texts)


@pytest.mark.parametrize("engine", STEPWISE)
@pytest.mark.parametrize("sample", ["heads", "grouped", "additive_inf", "everything", "sinks"])
def test_top_keys_and_cosine_agree_in_float64(engine: str, sample: str) -> None:
    oracle = oracle_of(sample).trace
    trace = run(engine, SAMPLES[sample]())
    assert oracle.top
    assert trace.top
    assert oracle.cosine is not None
    assert trace.cosine is not None
    np.testing.assert_array_equal(trace.top.keys, oracle.top.keys)
    np.testing.assert_allclose(trace.top.weights, oracle.top.weights, rtol=1e-13, atol=0)
    np.testing.assert_allclose(trace.cosine, oracle.cosine, rtol=1e-13, atol=0)
