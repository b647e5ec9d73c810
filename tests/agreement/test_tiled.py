"""The tiles against the whole: every block size, mask, precision and extra, as numpy has it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attn_cli.core.engine import Ask
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.masks import BoolArray, IntArray, TileKind
from attn_cli.core.trace import Trace
from attn_cli.engines import ENGINES
from attn_cli.positions.alibi import Alibi, slopes
from attn_cli.positions.relative import RelativeBias
from attn_cli.stats import STATISTICS
from tests.agreement.holding import (
    Oracle,
    assert_same_classes_of_rows,
    assert_stages_agree,
    assert_statistics_agree,
    fits,
    run,
)
from tests.agreement.samples import MASK_SAMPLES, SAMPLES, built, drawn, masked_sample, normal
from tests.agreement.test_nonfinite import CASES

DTYPES = ("float64", "float32", "float16", "bfloat16")
TEXTS = [text for texts in MASK_SAMPLES.values() for text in texts]


def tiled(inputs: AttentionInputs, dtype: str = "float64", **more: Any) -> Trace:
    """Everything that the engine has to say."""
    engine = ENGINES["tiled"]
    ask = Ask(
        keep=engine.can.known(inputs),
        stats=[STATISTICS[name] for name in STATISTICS],
        top=3,
        received=True,
        dtype=dtype,
        **more,
    )
    return engine.run(inputs, ask)


def assert_agrees(oracle: Oracle, dtype: str, block: int | None) -> None:
    """Context, lse, statistics; in float64 the best keys and what keys receive as well."""
    trace = tiled(oracle.inputs, dtype, block=block)
    assert_stages_agree(oracle, trace, dtype)
    assert_statistics_agree(oracle, trace, dtype)
    if dtype != "float64":
        return
    assert trace.top is not None
    assert trace.received is not None
    assert oracle.trace.top is not None
    np.testing.assert_array_equal(trace.top.keys, oracle.trace.top.keys)
    received = oracle.trace["weights"].sum(2)
    np.testing.assert_allclose(trace.top.weights, oracle.trace.top.weights, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(trace.received, received, rtol=1e-9, atol=1e-12)


@cache
def under(text: str) -> Oracle:
    return Oracle(masked_sample(text, 7, 0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_in_tiles_of_its_own_choice_and_of_three(name: str, dtype: str) -> None:
    oracle = Oracle(SAMPLES[name]())
    if fits(oracle.inputs, dtype):
        for block in (None, 3) if dtype == "float32" else (3,):
            assert_agrees(oracle, dtype, block)


BLOCKS = {1: "float64", 2: "float32", 3: "float16", 4: "bfloat16", 5: "float64", 50: "float32"}


@pytest.mark.parametrize("block", BLOCKS)
def test_every_mask_in_blocks_of_two_kinds_of_size_and_two_precisions(block: int) -> None:
    """No size but 1 divides the 7 queries and keys; every third mask, dealt out by place."""
    for text in TEXTS[list(BLOCKS).index(block) % 3 :: 3]:
        assert_agrees(under(text), BLOCKS[block], block)


@st.composite
def questions(draw: st.DrawFn) -> AttentionInputs:
    """A mask, grouped heads, unequal lengths, cap, sinks and position biases in any mixture."""
    queries, keys = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    group = draw(st.sampled_from([1, 2]))
    plain = drawn(
        draw(st.integers(0, 10**6)),
        heads=2 * group,
        kv_heads=2,
        queries=queries,
        keys=keys,
        d_k=4,
        d_v=draw(st.sampled_from([1, 3])),
        size=draw(st.sampled_from([0.1, 1.0, 6.0])),
        q_offset=max(keys - queries, 0),
        softcap=draw(st.sampled_from([None, 2.0])),
        sinks=draw(st.sampled_from([None, np.linspace(-3, 3, 2 * group)])),
    )
    texts = [None, "causal", "causal & window(3)", "window(2, both) | sink(1)", "~causal"]
    text = draw(st.sampled_from(texts))
    biases = [None, Alibi(slopes(2 * group)), RelativeBias(normal(3, 8, 2 * group))]
    bias = draw(st.sampled_from(biases))
    mask = None if text is None else built(text, plain)
    return replace(plain, mask=mask, position_bias=bias)


@settings(max_examples=25, deadline=None)
@given(inputs=questions(), block=st.integers(1, 14), dtype=st.sampled_from(DTYPES))
def test_block_size_does_not_matter(inputs: AttentionInputs, block: int, dtype: str) -> None:
    assert_agrees(Oracle(inputs), dtype, block)


@pytest.mark.parametrize("case", CASES)
def test_what_is_not_finite_is_where_numpy_has_it(case: str) -> None:
    inputs = CASES[case]()
    for dtype in ("float64", "float32", "float16"):
        right = run("numpy", inputs, dtype)
        right = replace(right, received=right["weights"].sum(2))
        for block in (None, 2):
            assert_same_classes_of_rows(right, tiled(inputs, dtype, block=block))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_hidden_key_takes_no_part_whatever_it_holds(dtype: str) -> None:
    plain = drawn(50, batch=2, heads=4, kv_heads=2)
    clean = replace(plain, mask=built("padding(3)", plain))
    k, v = clean.k.copy(), clean.v.copy()
    k[0, 1, 3], v[1, 0, 4] = np.nan, np.inf
    for block in (None, 2):
        right = tiled(clean, dtype, block=block)
        dirty = tiled(replace(clean, k=k, v=v), dtype, block=block)
        # Tiles with a NaN are computed another way, in another order of the same sums.
        near = 0.02 if "16" in dtype else 1e-5
        np.testing.assert_allclose(dirty["context"], right["context"], rtol=near, atol=near)
        assert np.isfinite(dirty["context"]).all()


class Watched:
    """Causal, and what was asked of it."""

    def __init__(self) -> None:
        self.evaluated: list[tuple[range, range]] = []

    def __call__(self, b: IntArray, h: IntArray, q_pos: IntArray, k_pos: IntArray) -> BoolArray:
        queries, keys = q_pos.ravel(), k_pos.ravel()
        self.evaluated.append((range(queries[0], queries[-1] + 1), range(keys[0], keys[-1] + 1)))
        return np.asarray(k_pos <= q_pos)

    def tile(self, b: int, h: int, queries: range, keys: range) -> TileKind:
        if keys.start > queries.stop - 1:
            return TileKind.EMPTY
        return TileKind.FULL if keys.stop - 1 <= queries.start else TileKind.MIXED


def test_full_and_empty_tiles_evaluate_no_mask_and_empty_ones_are_not_touched() -> None:
    """Keys beyond a block's last query hold NaN in the product's way: they are never multiplied."""
    watched = Watched()
    inputs = drawn(90, heads=1, queries=32, keys=32, mask=watched)
    trace = tiled(inputs, block=8)
    np.testing.assert_allclose(
        trace["context"], run("numpy", replace(inputs, mask=Watched()))["context"], atol=1e-14
    )
    for queries, keys in watched.evaluated:
        assert keys.start <= queries.stop - 1
        assert keys.stop - 1 > queries.start  # neither empty nor full
    assert {queries.start for queries, _ in watched.evaluated} == {0, 8, 16, 24}
    assert len(watched.evaluated) == 2 * 4  # one tile a block, twice: received


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_entropy_of_large_scores_keeps_its_digits(dtype: str) -> None:
    """Near 3,000 the unshifted lse − E[score] is off by 5e-4 in float32."""
    plain = drawn(91, heads=1, queries=6, keys=96, d_k=2, scale=1.0)
    q, k = plain.q.copy(), plain.k.copy()
    q[..., 0], k[..., 0] = 64.0, 48.0
    q, k = np.round(q * 16) / 16, np.round(k * 8) / 8  # exact in bfloat16, and so are the products
    inputs = replace(plain, q=q, k=k)
    exact = run("numpy", inputs).stats["entropy"]
    if dtype == "float32":
        got = tiled(inputs, dtype, block=16).stats["entropy"]
        np.testing.assert_allclose(got, exact, rtol=0, atol=2e-5)
    else:  # products near 3,000 are rounded to 16: the statistics must be those of such scores
        oracle = Oracle(inputs)
        assert_statistics_agree(oracle, tiled(inputs, dtype, block=16), dtype)


def test_progress_counts_rows_to_the_end_and_an_interrupt_passes() -> None:
    inputs = drawn(92, batch=2, heads=2, queries=9, keys=9)
    told: list[tuple[int, int]] = []
    tiled(inputs, block=4, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (36, 36)
    assert [done for done, _ in told] == sorted(done for done, _ in told)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tiled(inputs, block=4, progress=interrupt)
