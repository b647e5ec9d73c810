"""Few tokens, and tokens that are all alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from attn_cli.checks.edges.case import Case, Expected
from attn_cli.checks.edges.closed import only, uniform, weighted
from attn_cli.checks.edges.making import Making, Sizes, masked, ways
from attn_cli.core.inputs import AttentionInputs

ALONE = "one token sees itself alone: weight 1, and its own value"
ALIKE = "keys that are all alike share the weight: 1 / n for each of the n visible ones"


def one_token(make: Making) -> Iterator[Case]:
    """One query and one key: the weight is 1 whatever the score, the output the value."""
    sizes: Sizes = {"queries": 1, "keys": 1}
    for name, more in ways(
        {
            "plain": {},
            "one-item-one-head": {"batch": 1, "heads": 1},
            "one-feature": {"d_k": 1, "d_v": 1},
            "grouped-heads": {"heads": 6, "kv_heads": 3, "d_v": 5},
            "one-kv-head": {"heads": 6, "kv_heads": 1, "d_v": 5},
            "large-score": {"size": 30.0},
            "softcap": {"softcap": 2.0},
            "negative-scale": {"scale": -1.0},
        }
    ):
        inputs = make.question(name, **sizes, **more)
        yield make.case(name, ALONE, inputs, expected=only(inputs))
    for name, text in {"causal": "causal", "window": "window(1)", "padding": "padding(1)"}.items():
        inputs = masked(make.question(name, **sizes), text)
        yield make.case(name, ALONE, inputs, mask=text, expected=only(inputs))
    name = "bias"
    inputs = make.question(name, **sizes, bias=make.normal(name, "bias", 2, 3, 1, 1))
    yield make.case(name, ALONE, inputs, expected=only(inputs))


def two_tokens(make: Making) -> Iterator[Case]:
    """Two queries and two keys: the weights are the logistic function of the scores' difference."""
    sizes: Sizes = {"queries": 2, "keys": 2, "batch": 4, "d_v": 5}
    asks = "of two keys the weight of the second is 1 / (1 + exp(first score − second score))"
    for name, more in ways(
        {
            "plain": {},
            "large-scores": {"size": 4.0},
            "unscaled": {"scale": 1.0},
            "negative-scale": {"scale": -0.5},
            "grouped-heads": {"heads": 6, "kv_heads": 3},
            "one-feature": {"d_k": 1},
        }
    ):
        inputs = make.question(name, **{**sizes, **more})
        yield make.case(name, asks, inputs, expected=_logistic(inputs))
    inputs = make.question("opposite", **sizes)
    inputs = replace(inputs, q=np.stack([inputs.q[:, :, 0], -inputs.q[:, :, 0]], 2))
    yield make.case(
        "opposite",
        "a query and its negative weigh the two keys the other way round",
        inputs,
        expected=_logistic(inputs),
    )
    for name, text, words in (
        ("causal", "causal", "the first token sees itself alone, the second both"),
        ("anti-causal", "~causal", "the first token sees the second alone, the second nothing"),
    ):
        inputs = masked(make.question(name, **sizes), text)
        yield make.case(name, words, inputs, mask=text)
    inputs = masked(make.question("self", **sizes), "window(1)")
    yield make.case(
        "self", "each token sees itself alone", inputs, mask="window(1)", expected=only(inputs)
    )


def _logistic(inputs: AttentionInputs) -> Expected:
    group = inputs.shape[1] // inputs.kv_heads
    k = inputs.k.repeat(group, axis=1)
    gap = (inputs.q * (k[:, :, :1] - k[:, :, 1:])).sum(-1) * inputs.effective_scale
    second = np.where(gap > 0, np.exp(-abs(gap)), 1) / (1 + np.exp(-abs(gap)))
    first = np.where(gap < 0, np.exp(-abs(gap)), 1) / (1 + np.exp(-abs(gap)))
    return weighted(inputs, np.stack([first, second], -1), "the logistic function of the gap")


def identical_tokens(make: Making) -> Iterator[Case]:
    """Keys that are all alike: every visible key gets the same weight, hidden ones nothing."""
    for name, more in ways(
        {
            "plain": {},
            "large-scores": {"size": 8.0},
            "softcap": {"softcap": 3.0},
            "grouped-heads": {"heads": 6, "kv_heads": 3},
            "one-kv-head": {"heads": 6, "kv_heads": 1},
            "one-feature": {"d_k": 1},
            "many-keys": {"keys": 257},
        }
    ):
        inputs = _alike(make.question(name, **more))
        yield make.case(name, ALIKE, inputs, expected=uniform(inputs))
    for text in (
        "causal",
        "window(3)",
        "window(2, both)",
        "padding(4, 6)",
        "prefix(2)",
        "sink(2)",
        "documents(3, 4)",
        "block(3)",
        "dilated(2, 2)",
        "random(3)",
        "global(0, 3)",
        "causal & (window(2) | sink(1))",
    ):
        name = "".join(c for c in text.replace(" & ", "-and-") if c.isalnum() or c == "-")
        inputs = masked(_alike(make.question(name)), text)
        yield make.case(name, ALIKE, inputs, mask=text, expected=uniform(inputs))
    inputs = _alike(make.question("values-too"))
    same = np.broadcast_to(inputs.v[:, :, :1], inputs.v.shape).copy()
    inputs = replace(inputs, v=same)
    words = "where the values are alike as well, that value comes out"
    yield make.case("values-too", words, inputs, expected=uniform(inputs))


def _alike(inputs: AttentionInputs) -> AttentionInputs:
    """The question with the first key in the place of all keys."""
    return replace(inputs, k=np.repeat(inputs.k[:, :, :1], inputs.shape[3], axis=2))


def one_key(make: Making) -> Iterator[Case]:
    """Many queries and one key: every row that sees it gives its value."""
    asks = "with one key every row is its value"
    for name, more in ways(
        {
            "plain": {},
            "grouped-heads": {"heads": 6, "kv_heads": 3},
            "one-kv-head": {"heads": 6, "kv_heads": 1},
            "one-value-feature": {"d_v": 1},
            "large-scores": {"size": 30.0},
            "softcap": {"softcap": 1.5},
            "many-queries": {"queries": 129},
        }
    ):
        inputs = make.question(name, keys=1, **more)
        yield make.case(name, asks, inputs, expected=only(inputs))
    inputs = masked(make.question("causal", keys=1), "causal")
    yield make.case("causal", asks, inputs, mask="causal", expected=only(inputs))
    inputs = masked(make.question("window", keys=1), "window(2)")
    words = "queries 0 and 1 see the one key, later ones nothing"
    yield make.case("window", words, inputs, mask="window(2)", expected=only(inputs))


def one_value_feature(make: Making) -> Iterator[Case]:
    """Values of one feature: the output keeps its last axis, of size 1."""
    asks = "with d_v = 1 the output is (batch, head, query, 1)"
    for name, more in ways(
        {
            "plain": {},
            "grouped-heads": {"heads": 6, "kv_heads": 3},
            "one-kv-head": {"heads": 6, "kv_heads": 1},
            "one-query": {"queries": 1},
            "one-key-feature": {"d_k": 1},
            "one-head": {"heads": 1, "batch": 1},
        }
    ):
        yield make.case(name, asks, make.question(name, **{"d_v": 1, **more}))
    inputs = masked(make.question("causal", d_v=1, align="lower-right"), "causal")
    yield make.case("causal", asks, inputs, mask="causal")
