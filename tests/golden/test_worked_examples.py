"""Examples that can be followed by hand, each with where its numbers come from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attn_cli.core.inputs import Array, AttentionInputs
from attn_cli.core.trace import Trace
from tests.agreement.holding import STEPWISE, lse_of, run
from tests.agreement.samples import built

# The three tokens of many tutorials. q·kᵀ / 2 by hand: 1 0 .5 / 0 1 .5 / .5 .5 1, and
# e^1 : e^0 : e^.5 = 2.71828 : 1 : 1.64872, e^.5 : e^.5 : e^1 — divided by their sums.
THREE = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]])


@pytest.fixture(params=STEPWISE)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def tokens(x: Array, **more: Any) -> AttentionInputs:
    """Q = K = V = x, one head."""
    one = np.asarray(x, float)[np.newaxis, np.newaxis]
    return AttentionInputs(q=one, k=one, v=one, **more)


def under(mask: str, inputs: AttentionInputs) -> AttentionInputs:
    return replace(inputs, mask=built(mask, inputs))


def weights(trace: Trace) -> Array:
    array: Array = trace["weights"][0, 0]
    return array


def test_three_tokens(engine: str) -> None:
    trace = run(engine, tokens(THREE))
    np.testing.assert_array_equal(trace["scaled"][0, 0], [[1, 0, 0.5], [0, 1, 0.5], [0.5, 0.5, 1]])
    _five_digits(
        weights(trace),
        [[0.50648, 0.18632, 0.30720], [0.18632, 0.50648, 0.30720], [0.27407, 0.27407, 0.45186]],
    )
    _five_digits(
        trace["context"][0, 0],
        [
            [0.81368, 0.49352, 0.50648, 0.18632],
            [0.49352, 0.81368, 0.18632, 0.50648],
            [0.72593, 0.72593, 0.27407, 0.27407],
        ],
    )
    _five_digits(trace.stats["entropy"][0, 0], [1.02019, 1.02019, 1.06845])
    _five_digits(trace.stats["normalized_entropy"][0, 0], [0.92862, 0.92862, 0.97254])


def test_three_tokens_under_the_causal_mask(engine: str) -> None:
    """Row 1 has scores 0 and 1: 1/(1 + e) = .26894."""
    trace = run(engine, under("causal", tokens(THREE)))
    _five_digits(weights(trace), [[1, 0, 0], [0.26894, 0.73106, 0], [0.27407, 0.27407, 0.45186]])
    np.testing.assert_array_equal(trace.stats["visible_keys"][0, 0], [1, 2, 3])


def test_three_tokens_without_the_scale(engine: str) -> None:
    """Scores 2 0 1 and 1 1 2: e^2 : 1 : e and e : e : e^2."""
    trace = run(engine, tokens(THREE, scale=1.0))
    _five_digits(weights(trace)[0], [0.66524, 0.09003, 0.24473])
    _five_digits(weights(trace)[2], [0.21194, 0.21194, 0.57612])


def test_a_mask_before_the_softmax_and_a_fill_of_0(engine: str) -> None:
    """Scores 2, 1, .5 and a hidden one: hiding it is not filling it with 0, e^0 = 1 more in Z."""
    scores = np.array([[2.0, 1.0, 0.5, 9.0]])
    hidden = run(engine, under("padding(3)", _scored(scores)))
    _five_digits(weights(hidden)[0], [0.62853, 0.23122, 0.14024, 0])
    filled = run(engine, _scored(np.array([[2.0, 1.0, 0.5, 0.0]])))
    _five_digits(weights(filled)[0], [0.57926, 0.21310, 0.12925, 0.07839])


def test_hidden_weight_is_shared_out_among_the_visible(engine: str) -> None:
    """Weights .2 .3 .2 .3 by their logarithms; the last one hidden: 2/7 3/7 2/7."""
    logs = np.log([[0.2, 0.3, 0.2, 0.3]])
    np.testing.assert_allclose(weights(run(engine, _scored(logs)))[0], [0.2, 0.3, 0.2, 0.3])
    trace = run(engine, under("padding(3)", _scored(logs)))
    np.testing.assert_allclose(weights(trace)[0], [2 / 7, 3 / 7, 2 / 7, 0], rtol=1e-14)


def test_a_far_token_of_the_same_score_has_the_same_weight(engine: str) -> None:
    """A × 100 + B: without positions and with equal scores the last token gives 1/101 to each."""
    a, b = [1.0, 0.0], [1.0, 0.0]
    trace = run(engine, tokens(np.array([a] * 100 + [b])))
    np.testing.assert_allclose(weights(trace), 1 / 101, rtol=1e-14)
    np.testing.assert_allclose(trace.stats["first_key_weight"][0, 0, -1], 1 / 101, rtol=1e-14)
    np.testing.assert_allclose(trace.stats["mean_distance"][0, 0, -1], 50, rtol=1e-13)
    np.testing.assert_allclose(trace.stats["entropy"][0, 0], np.log(101), rtol=1e-14)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_identical_tokens_are_looked_at_alike(engine: str, dtype: str) -> None:
    same = tokens(np.tile([0.3, -1.2, 0.7], (4, 1)))
    np.testing.assert_array_equal(weights(run(engine, same, dtype)), 0.25)
    causal = weights(run(engine, under("causal", tokens(np.tile([2.0, 1.0], (3, 1))))))
    third = 1 / 3
    expected = np.array([[1, 0, 0], [0.5, 0.5, 0], [third, third, third]])
    np.testing.assert_allclose(causal, expected, rtol=1e-15, atol=0)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_one_token_has_weight_1_and_is_its_own_output(engine: str, dtype: str) -> None:
    x = np.array([[0.25, -1.5, 3.0]])
    trace = run(engine, tokens(x), dtype)
    assert weights(trace).tolist() == [[1.0]]
    np.testing.assert_array_equal(trace["context"][0, 0], x)
    assert trace.stats["sum"].item() == 1
    assert trace.stats["entropy"].item() == 0
    assert not np.signbit(trace.stats["entropy"].item())
    assert np.isnan(trace.stats["normalized_entropy"].item())  # one key has no choice


def test_a_sink_takes_its_share(engine: str) -> None:
    """Two keys of score 0 and a sink of 0: a third each, so that the row sums to 2/3."""
    trace = run(engine, tokens(np.zeros((2, 2)), sinks=np.zeros(1)))
    np.testing.assert_allclose(weights(trace), 1 / 3, rtol=1e-15)
    np.testing.assert_allclose(trace.stats["sum"], 2 / 3, rtol=1e-15)
    np.testing.assert_allclose(lse_of(trace), np.log(3), rtol=1e-15)


def test_dividing_by_d_k_makes_rows_all_but_uniform(engine: str) -> None:
    """d_k = 64, unit normal, 64 keys: ÷ d_k leaves entropies near ln 64 = 4.1589."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(1, 4, 64, 64)) for _ in "qkv")
    twice = run(engine, AttentionInputs(q, k, v, scale=1 / 64)).stats["entropy"].mean()
    once = run(engine, AttentionInputs(q, k, v)).stats["entropy"].mean()
    np.testing.assert_allclose(twice, 4.1512, atol=5e-4)
    assert once < 3.8


@pytest.mark.parametrize("keys, share", [(5, 0.46), (10, 0.35), (64, 0.20)])
def test_without_the_scale_many_rows_saturate(keys: int, share: float) -> None:
    """d_k = 64, unit normal: the share of rows that give one key more than .99."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(size=(1, 8, keys if i else 400, 64)) for i in range(3))
    trace = run("numpy", AttentionInputs(q, k, v, scale=1.0, q_offset=None))
    found = (trace.stats["max_weight"] > 0.99).mean()
    np.testing.assert_allclose(found, share, atol=0.07)


def _scored(scores: Array) -> AttentionInputs:
    """Inputs whose scaled scores are `scores` (L, S), exactly: q picks them out of the keys."""
    length, keys = scores.shape
    q = np.eye(length)[np.newaxis, np.newaxis]
    k = scores.T[np.newaxis, np.newaxis]
    return AttentionInputs(q, k, np.ones((1, 1, keys, 1)), scale=1.0, q_offset=None)


def _five_digits(came: Array, right: Any) -> None:
    np.testing.assert_allclose(came, right, rtol=0, atol=5.1e-6)
