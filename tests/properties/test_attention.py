"""What holds for attention whatever the input, for every engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attn_cli.core.inputs import Array, AttentionInputs
from attn_cli.core.trace import STAGES, Trace
from tests.agreement.holding import STEPWISE, lse_of, run
from tests.agreement.samples import built, stored
from tests.properties.questions import questions

SEEDS = st.integers(0, 2**32 - 1)
every_engine = pytest.mark.parametrize("engine", STEPWISE)
few = settings(max_examples=20)


def assert_same_rows(a: Trace, b: Trace, *, atol: float = 1e-12) -> None:
    """Weights, outputs and every number a row are the same up to rounding."""
    for name in ("weights", "context"):
        np.testing.assert_allclose(a[name], b[name], rtol=1e-9, atol=atol, err_msg=name)
    for name in a.stats:
        np.testing.assert_allclose(a.stats[name], b.stats[name], rtol=1e-9, atol=1e-9, err_msg=name)


@every_engine
@few
@given(inputs=questions())
def test_rows_sum_to_1_or_to_what_the_sink_leaves(engine: str, inputs: AttentionInputs) -> None:
    trace = run(engine, inputs)
    sums = trace["weights"].sum(-1)
    assert (trace["weights"] >= 0).all()
    assert (sums[trace.empty] == 0).all()
    live = ~trace.empty
    if inputs.sinks is None:
        np.testing.assert_allclose(sums[live], 1, rtol=1e-13)
    else:
        sinks = np.broadcast_to(inputs.sinks[:, None], sums.shape)[live]
        np.testing.assert_allclose(sums[live] + np.exp(sinks - lse_of(trace)[live]), 1, rtol=1e-11)
    np.testing.assert_allclose(trace.stats["sum"], sums, rtol=1e-13)


@every_engine
@few
@given(inputs=questions(sinks=False))
def test_numbers_of_a_row_keep_their_bounds(engine: str, inputs: AttentionInputs) -> None:
    trace, live = run(engine, inputs), None
    stats, live = trace.stats, ~trace.empty
    visible = stats["visible_keys"][live]
    entropy = stats["entropy"][live]
    assert (entropy >= 0).all()
    assert not np.signbit(entropy).any()  # −0 is never shown
    assert (entropy <= np.log(visible) + 1e-12).all()
    assert (stats["effective_keys"][live] <= visible * (1 + 1e-12)).all()
    np.testing.assert_allclose(stats["max_weight"][live], trace["weights"].max(-1)[live])
    assert (stats["max_weight"][live] >= (1 - 1e-12) / visible).all()
    seen = inputs.visible()
    seen = np.ones(inputs.shape, bool) if seen is None else seen
    np.testing.assert_array_equal(stats["visible_keys"], seen.sum(-1))
    for name in ("entropy", "effective_keys", "max_weight", "mean_distance"):
        assert np.isnan(stats[name][trace.empty]).all()


@every_engine
@few
@given(inputs=questions(sinks=False), seed=SEEDS)
def test_a_constant_added_to_a_row_of_scores_changes_nothing(
    engine: str, inputs: AttentionInputs, seed: int
) -> None:
    constants = np.random.default_rng(seed).normal(size=(*inputs.shape[:3], 1)) * 50
    bias = constants if inputs.bias is None else inputs.bias + constants
    before, after = run(engine, inputs), run(engine, replace(inputs, bias=bias))
    assert_same_rows(before, after)
    with np.errstate(invalid="ignore"):  # empty rows: −inf on both sides
        shift = (lse_of(after) - lse_of(before))[~before.empty]
    np.testing.assert_allclose(shift, constants[..., 0][~before.empty], atol=1e-9)


@every_engine
@few
@given(inputs=questions(), seed=SEEDS)
def test_permuting_keys_permutes_weights(engine: str, inputs: AttentionInputs, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(inputs.shape[3])
    moved = replace(
        inputs,
        k=inputs.k[:, :, order],
        v=inputs.v[:, :, order],
        mask=None if inputs.mask is None else stored(inputs.keep()[..., order], inputs.shape),
        additive=None if inputs.additive is None else inputs.additive[..., order],
        bias=None if inputs.bias is None else inputs.bias[..., order],
    )
    before, after = run(engine, inputs), run(engine, moved)
    np.testing.assert_allclose(after["weights"], before["weights"][..., order], atol=1e-12)
    np.testing.assert_allclose(after["context"], before["context"], atol=1e-11)
    np.testing.assert_allclose(after.stats["entropy"], before.stats["entropy"], atol=1e-10)


@every_engine
@few
@given(inputs=questions())
def test_grouped_heads_are_repeated_heads(engine: str, inputs: AttentionInputs) -> None:
    group = inputs.shape[1] // inputs.kv_heads
    repeated = replace(inputs, k=inputs.k.repeat(group, 1), v=inputs.v.repeat(group, 1))
    grouped, plain = run(engine, inputs), run(engine, repeated)
    for name in STAGES:
        np.testing.assert_array_equal(grouped[name], plain[name], err_msg=name)


@every_engine
@few
@given(inputs=questions(mask=False), seed=SEEDS)
def test_a_smaller_mask_has_smaller_support(
    engine: str, inputs: AttentionInputs, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    large = rng.random(inputs.shape) < 0.8
    small = large & (rng.random(inputs.shape) < 0.6)
    wide = run(engine, replace(inputs, mask=stored(large, inputs.shape)))
    narrow = run(engine, replace(inputs, mask=stored(small, inputs.shape)))
    assert (wide["weights"][~large] == 0).all()
    assert ((narrow["weights"] > 0) <= ((wide["weights"] > 0) | (wide["masked"] > -np.inf))).all()
    # What stays visible gains: the others' weight is shared out among it.
    assert (narrow["weights"] >= wide["weights"] * (1 - 1e-9))[small].all()
    assert (narrow.stats["visible_keys"] <= wide.stats["visible_keys"]).all()


@every_engine
@few
@given(inputs=questions(mask=False, additive=False), seed=SEEDS)
def test_causal_rows_do_not_move_when_later_tokens_change(
    engine: str, inputs: AttentionInputs, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    cut = int(rng.integers(0, inputs.shape[3]))
    k, v = inputs.k.copy(), inputs.v.copy()
    k[:, :, cut + 1 :] = rng.normal(size=k[:, :, cut + 1 :].shape) * 9
    v[:, :, cut + 1 :] = np.nan
    causal = replace(inputs, mask=built("causal", inputs))
    before, after = run(engine, causal), run(engine, replace(causal, k=k, v=v))
    for name in ("weights", "context"):
        np.testing.assert_array_equal(
            after[name][:, :, : cut + 1], before[name][:, :, : cut + 1], err_msg=name
        )


@every_engine
@few
@given(inputs=questions(mask=False, additive=False), seed=SEEDS)
def test_items_of_a_batch_do_not_see_each_other(
    engine: str, inputs: AttentionInputs, seed: int
) -> None:
    def item(array: Array, b: int) -> Array:
        return array[b : b + 1]

    together = run(engine, inputs)
    for b in range(inputs.shape[0]):
        alone = replace(inputs, q=item(inputs.q, b), k=item(inputs.k, b), v=item(inputs.v, b))
        trace = run(engine, alone)
        for name in STAGES:
            np.testing.assert_array_equal(trace[name][0], together[name][b], err_msg=name)


@every_engine
@few
@given(inputs=questions(sinks=False))
def test_an_output_lies_between_the_values_its_row_sees(
    engine: str, inputs: AttentionInputs
) -> None:
    trace, seen = run(engine, inputs), inputs.visible()
    seen = np.ones(inputs.shape, bool) if seen is None else seen
    v = inputs.v.repeat(inputs.shape[1] // inputs.kv_heads, 1)[:, :, None]  # (B, H, 1, S, d_v)
    most = np.where(seen[..., None], v, -np.inf).max(3)[~trace.empty]
    least = np.where(seen[..., None], v, np.inf).min(3)[~trace.empty]
    context = trace["context"][~trace.empty]
    assert ((context <= most + 1e-12) & (context >= least - 1e-12)).all()
    assert (trace["context"][trace.empty] == 0).all()


def test_the_comparison_of_rows_can_fail() -> None:
    trace, other = (run("numpy", _two_tokens()) for _ in "ab")
    assert_same_rows(trace, other)
    other["context"][0, 0, 1, 0] += 1e-6
    with pytest.raises(AssertionError, match="context"):
        assert_same_rows(trace, other)


def _two_tokens() -> AttentionInputs:
    x = np.eye(2)[np.newaxis, np.newaxis]
    return AttentionInputs(x, x, x)
