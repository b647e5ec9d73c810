"""A long way between a query and the key that matters: A × 100 + B."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from attn_cli.checks.edges.case import Case, Expected
from attn_cli.checks.edges.closed import chosen, uniform, weighted
from attn_cli.checks.edges.making import Making, masked
from attn_cli.core.inputs import AttentionInputs

FAR = 100  # tokens A before the one token B
LOUD = 40.0  # by how much a key that must be found outscores the others: exp(−40) is 4e-18


def long_distance(make: Making) -> Iterator[Case]:
    """A hundred tokens A and one B: B's share is as its score has it, and nothing far is lost."""
    yield from _shares(make)
    yield from _found(make)
    yield from _masked(make)


def _shares(make: Making) -> Iterator[Case]:
    for name, far in (("equal-scores", FAR), ("equal-scores-1000", 1000)):
        inputs = _a_then_b(make, name, far, ahead=0.0)
        asks = f"A × {far} + B with equal scores: B gets 1 / {far + 1}, and so does every A"
        yield make.case(name, asks, inputs, expected=uniform(inputs))
    for share, name in ((1 / 2, "half"), (1 / 11, "eleventh"), (100 / 101, "nearly-all")):
        ahead = math.log(share / (1 - share) * FAR)
        inputs = _a_then_b(make, name, FAR, ahead=float(make.rounded(np.array(ahead))))
        asks = f"B outscores each of 100 A by {ahead:.3g}: the softmax gives it {share:.3g}"
        yield make.case(name, asks, inputs, expected=_share(inputs))


def _found(make: Making) -> Iterator[Case]:
    for key, name in (
        (0, "first-key"),
        (1, "second-key"),
        (50, "middle-key"),
        (63, "key-63"),
        (64, "key-64"),
        (100, "last-key"),
    ):
        inputs = _loud(make, name, key)
        asks = f"key {key} of {FAR + 1} outscores all others by {LOUD:g}: its value comes out"
        yield make.case(name, asks, inputs, expected=chosen(inputs, key, f"the value of key {key}"))


def _masked(make: Making) -> Iterator[Case]:
    inputs = masked(_loud(make, "out-of-window", 0), "window(10)")
    yield make.case(
        "out-of-window",
        "a window of 10 keys does not reach the loud key 0: the 10 keys within share the weight",
        inputs,
        mask="window(10)",
        expected=uniform(inputs),
    )
    text = "window(10) | sink(1)"
    inputs = masked(_loud(make, "behind-a-sink", 0), text)
    yield make.case(
        "behind-a-sink",
        "sink(1) lets the last query see the loud key 0 behind its window",
        inputs,
        mask=text,
        expected=chosen(inputs, 0, "the value of key 0"),
    )
    name = "causal-rows"
    inputs = make.question(name, batch=1, heads=2, queries=FAR + 1, keys=FAR + 1)
    inputs = masked(replace(inputs, k=np.zeros_like(inputs.k)), "causal")
    asks = "scores all 0 under causal: row i is the mean of the first i + 1 values"
    yield make.case(name, asks, inputs, mask="causal", expected=uniform(inputs))


def _last_query(make: Making, name: str, far: int) -> AttentionInputs:
    """The query of token B, the last one, which looks back at `far` + 1 keys."""
    return make.question(name, queries=1, keys=far + 1, align="lower-right")


def _a_then_b(make: Making, name: str, far: int, *, ahead: float) -> AttentionInputs:
    """Values A × far + B; B's score is `ahead`, every A's 0."""
    inputs = _last_query(make, name, far)
    value = np.repeat(inputs.v[:, :, :1], far + 1, axis=2)
    value[:, :, -1] = inputs.v[:, :, -1]
    inputs = replace(inputs, v=value)
    return _scored(inputs, key=far, score=ahead)


def _loud(make: Making, name: str, key: int) -> AttentionInputs:
    return _scored(_last_query(make, name, FAR), key=key, score=LOUD)


def _scored(inputs: AttentionInputs, *, key: int, score: float) -> AttentionInputs:
    """One key scores `score` and all others 0, without a scale."""
    q, k = np.zeros_like(inputs.q), np.zeros_like(inputs.k)
    q[..., 0], k[:, :, key, 0] = 1.0, score
    return replace(inputs, q=q, k=k, scale=1.0)


def _share(inputs: AttentionInputs) -> Expected:
    e = np.exp(inputs.k[..., 0])[:, :, None, :]  # (B, H, 1, S): scores are k's first feature
    return weighted(inputs, e / e.sum(-1, keepdims=True), "exp(score) / Σ exp(score)")
