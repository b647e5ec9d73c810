"""Order: attention without positions does not see it; every position scheme does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import attn_cli
from attn_cli.core.trace import Trace

Array = NDArray[Any]

TOKENS = ["我", "喜欢", "苹果"]
VECTORS = np.array(
    [
        [0.9, 0.2, -0.5, 0.4, 2.0, -0.6, 1.2, 0.1],
        [-0.6, 2.8, 0.4, -1.1, 0.7, 0.9, 0.5, -0.4],
        [0.3, 0.9, 0.8, -0.2, 1.0, -0.8, 0.4, 0.9],
    ]
)
REVERSED = [2, 1, 0]
SWAPPED = [1, 0, 2]


def run(order: list[int], **options: Any) -> Trace:
    """我 喜欢 苹果 in another order, through seeded projections of two heads."""
    arrays = {"x": VECTORS[order], "tokens": [TOKENS[i] for i in order]}
    return attn_cli.run(arrays, heads=2, init="xavier", seed=3, **options)


def moved(order: list[int], **options: Any) -> float:
    """How far a token's output moves at most when the tokens change places."""
    here, there = run([0, 1, 2], **options)["output"][0], run(order, **options)["output"][0]
    return float(np.abs(there - here[order]).max())


@pytest.mark.parametrize("order", [REVERSED, SWAPPED, [1, 2, 0]])
def test_without_positions_a_token_gets_the_same_output_wherever_it_stands(
    order: list[int],
) -> None:
    assert moved(order) < 1e-14


@pytest.mark.parametrize("positions", ["sinusoidal", "rope", "rope:half", "rope:interleaved"])
def test_a_reversal_is_seen_with_positions(positions: str) -> None:
    assert moved(REVERSED, positions=positions) > 0.01


def test_learned_positions_see_a_reversal() -> None:
    table = np.random.default_rng(1).normal(size=(5, 8))
    outputs = [
        attn_cli.run({"x": VECTORS[order], "positions": table}, init="xavier", positions="learned")[
            "output"
        ][0]
        for order in ([0, 1, 2], REVERSED)
    ]
    assert np.abs(outputs[1] - outputs[0][REVERSED]).max() > 0.01


def test_alibi_does_not_see_a_plain_reversal() -> None:
    """−m·|i − j| is the same from behind."""
    assert moved(REVERSED, positions="alibi") < 1e-14


def test_alibi_sees_two_neighbours_change_places() -> None:
    assert moved(SWAPPED, positions="alibi") > 0.005


def test_alibi_sees_a_reversal_under_the_causal_mask() -> None:
    assert moved(REVERSED, positions="alibi", mask="causal") > 0.01


def test_a_relative_bias_sees_a_reversal_when_it_tells_before_from_after() -> None:
    table = np.random.default_rng(2).normal(size=(8, 2))

    def output(order: list[int], *, both: bool) -> Array:
        arrays = {"x": VECTORS[order], "relative_attention_bias": table}
        trace = attn_cli.run(
            arrays, heads=2, init="xavier", positions="relative", relative_bidirectional=both
        )
        return np.asarray(trace["output"][0])

    for both in (True, False):
        here, there = output([0, 1, 2], both=both), output(REVERSED, both=both)
        assert np.abs(there - here[REVERSED]).max() > 0.01


def test_a_causal_mask_alone_sees_the_order() -> None:
    assert moved(REVERSED, mask="causal") > 0.01
