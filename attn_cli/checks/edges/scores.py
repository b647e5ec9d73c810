"""Scores at their limits, and everything that changes them: scale, cap, bias, sinks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from attn_cli.checks.edges.case import Case
from attn_cli.checks.edges.closed import chosen, uniform
from attn_cli.checks.edges.making import Making, Sizes, masked
from attn_cli.core.inputs import AttentionInputs


def huge_scores(make: Making) -> Iterator[Case]:
    """Scores whose exponentials overflow: the largest wins, and nothing is inf or NaN."""
    asks = "scores of standard deviation {size:,.0f}: the row's maximum must come off first"
    for name, size in {"hundreds": 100.0, "thousands": 3000.0}.items():
        inputs = make.question(name, size=math.sqrt(size / math.sqrt(8)), scale=1.0)
        yield make.case(name, asks.format(size=size), inputs)
    limit = make.precision.largest
    inputs = make.question("near-the-limit", size=math.sqrt(limit) / 16)
    words = f"scores up to about {limit / 10:.0e}, near the largest number of {make.dtype}"
    yield make.case("near-the-limit", words, inputs)
    inputs = masked(make.question("causal", size=15.0, scale=1.0), "causal")
    yield make.case(
        "causal", "large scores that are hidden must not set the scale", inputs, mask="causal"
    )
    inputs = make.question("all-very-negative", size=0.0)
    inputs = _first_feature(inputs, q=-1.0, k=1000.0)
    words = "scores of −1000 each: exp gives 0, and the softmax is uniform all the same"
    yield make.case("all-very-negative", words, inputs, expected=uniform(inputs))
    inputs = _first_feature(make.question("all-very-positive", size=0.0), q=1.0, k=1000.0)
    words = "scores of 1000 each: exp overflows, and the softmax is uniform all the same"
    yield make.case("all-very-positive", words, inputs, expected=uniform(inputs))
    inputs = _first_feature(make.question("one-loud-key", size=0.0), q=1.0, k=0.0)
    inputs.k[:, :, 3, 0] = 1000.0
    words = "one key outscores the others by 1000: its value comes out"
    yield make.case("one-loud-key", words, inputs, expected=chosen(inputs, 3, "the value of key 3"))
    inputs = make.question(
        "with-bias", bias=make.normal("with-bias", "bias", 2, 3, 5, 7, size=500.0)
    )
    yield make.case("with-bias", "a bias of hundreds is no reason to overflow", inputs)


def tiny_scores(make: Making) -> Iterator[Case]:
    """Scores next to 0: the weights are next to uniform."""
    for name, size in {"thousandth": 0.03, "millionth": 1e-3}.items():
        asks = f"q and k of standard deviation {size:g}: weights close to 1 / 7"
        yield make.case(name, asks, make.question(name, size=size))
    inputs = make.question("zero-queries")
    inputs = replace(inputs, q=np.zeros_like(inputs.q))
    yield make.case(
        "zero-queries", "queries of 0 weigh all keys alike", inputs, expected=uniform(inputs)
    )
    inputs = make.question("zero-keys")
    inputs = replace(inputs, k=np.zeros_like(inputs.k))
    yield make.case("zero-keys", "keys of 0 are weighed alike", inputs, expected=uniform(inputs))
    smallest = make.precision.smallest_normal
    inputs = make.question("products-underflow", size=math.sqrt(smallest) / 256)
    words = f"products of q and k below the smallest normal number of {make.dtype}"
    yield make.case("products-underflow", words, inputs, expected=uniform(inputs))
    inputs = make.question("zero-values")
    inputs = replace(inputs, v=np.zeros_like(inputs.v))
    yield make.case("zero-values", "values of 0 give 0", inputs)
    inputs = masked(make.question("causal", size=1e-3), "causal")
    yield make.case(
        "causal", "row i is next to the mean of the first i + 1 values", inputs, mask="causal"
    )


def scale(make: Making) -> Iterator[Case]:
    """The factor on the scores: 1/√d_k unless another is given."""
    given = {"one": 1.0, "small": 0.01, "negative": -0.5, "zero": 0.0, "large": 4.0}
    for name, factor in given.items():
        asks = f"the scale {factor:g} is given and used instead of 1/√d_k"
        inputs = make.question(name, scale=factor)
        yield make.case(name, asks, inputs, expected=uniform(inputs) if factor == 0 else None)
    for name, d_k in {"d-k-1": 1, "d-k-64": 64, "d-k-80": 80}.items():
        asks = f"d_k = {d_k}: without a scale the factor is 1/√{d_k}"
        yield make.case(name, asks, make.question(name, d_k=d_k))


def softcap(make: Making) -> Iterator[Case]:
    """Capped scores: C·tanh(score / C), after the scale and before bias and mask."""
    each: dict[str, Sizes] = {
        "plain": {"softcap": 2.0},
        "tight": {"softcap": 0.1, "size": 3.0},
        "loose": {"softcap": 50.0},
        "large-scores": {"softcap": 5.0, "size": 12.0},
        "with-scale": {"softcap": 2.0, "scale": 1.0},
        "grouped-heads": {"softcap": 2.0, "heads": 6, "kv_heads": 3},
        "with-bias": {"softcap": 1.0, "bias": make.normal("with-bias", "bias", 2, 3, 5, 7)},
    }
    for name, more in each.items():
        asks = f"scores are capped at ±{more['softcap']:g}, before anything is added"
        yield make.case(name, asks, make.question(name, **more))
    inputs = masked(make.question("causal", softcap=2.0), "causal")
    words = "hidden keys stay hidden: the cap comes before the mask"
    yield make.case("causal", words, inputs, mask="causal")


def bias(make: Making) -> Iterator[Case]:
    """A bias on the scaled scores, of every shape that broadcasts."""
    for name, shape in {
        "all-axes": (2, 3, 5, 7),
        "per-head": (1, 3, 5, 7),
        "per-item": (2, 1, 1, 7),
        "per-key": (7,),
        "per-query": (5, 1),
        "one-number": (1, 1),
    }.items():
        inputs = make.question(name, bias=make.normal(name, "bias", *shape))
        yield make.case(name, f"a bias of shape {shape} is added after the scale", inputs)
    inputs = make.question("causal", bias=make.normal("causal", "bias", 1, 3, 5, 7))
    yield make.case("causal", "bias and mask together", masked(inputs, "causal"), mask="causal")
    inputs = make.question(
        "grouped-heads", heads=6, kv_heads=3, bias=make.normal("grouped-heads", "bias", 6, 1, 7)
    )
    yield make.case("grouped-heads", "the bias belongs to query heads", inputs)


def sinks(make: Making) -> Iterator[Case]:
    """Sinks: an extra logit per head in the denominator; rows sum below 1."""
    asks = "exp(sink) is added to the denominator of its head's rows, and no value to the output"
    each: dict[str, tuple[list[float], Sizes]] = {
        "plain": ([-1.0, 0.5, 2.0], {}),
        "very-low": ([-300.0, -30.0, -3.0], {}),
        "very-high": ([3.0, 12.0, 300.0], {}),
        "above-large-scores": ([10.0, 100.0, 1000.0], {"size": 10.0}),
        "equal": ([0.0, 0.0, 0.0], {"size": 0.0}),
        "softcap": ([-1.0, 0.5, 2.0], {"softcap": 1.0}),
    }
    for name, (logits, more) in each.items():
        yield make.case(name, asks, make.question(name, sinks=np.array(logits), **more))
    inputs = masked(make.question("causal", sinks=np.array([-1.0, 0.5, 2.0])), "causal")
    yield make.case("causal", asks, inputs, mask="causal")


def _first_feature(inputs: AttentionInputs, *, q: float, k: float) -> AttentionInputs:
    """Only the first features of q and k are not 0; scores are their product."""
    inputs.q[..., 0], inputs.k[..., 0] = q, k
    return replace(inputs, scale=1.0)
