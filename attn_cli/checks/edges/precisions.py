"""float16 and bfloat16: their range, their steps, and sums that must be kept wider."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from attn_cli.checks.edges.case import Case
from attn_cli.checks.edges.closed import uniform
from attn_cli.checks.edges.making import Making, masked


def float16(make: Making) -> Iterator[Case]:
    """float16: numbers end at 65,504 and get coarse below 6e-5; sums must be kept wider."""
    yield from _ordinary(make)
    inputs = make.question("values-near-the-limit", size=0.0)
    inputs = replace(inputs, v=np.full_like(inputs.v, 60000.0))
    asks = "the mean of values of 60,000 is 60,000: their sum must not overflow"
    yield make.case("values-near-the-limit", asks, inputs, expected=uniform(inputs))
    inputs = make.question("subnormal-weights", size=0.0, scale=1.0)
    inputs.q[..., 0] = 1.0
    inputs.k[..., 0] = np.arange(7) * -2.5
    asks = "scores down to −15: weights as small as 3e-7 are subnormal, not lost"
    yield make.case("subnormal-weights", asks, inputs)
    inputs = make.question("scores-near-the-limit", size=0.0, scale=2.0**-11)
    inputs.q[..., 0] = 100.0
    inputs.k[..., 0] = np.linspace(0, 600, 7)
    asks = "products up to 60,000 fit, and are scaled down afterwards"
    yield make.case("scores-near-the-limit", asks, inputs)


def bfloat16(make: Making) -> Iterator[Case]:
    """bfloat16: 8 bits of significand over the range of float32."""
    yield from _ordinary(make)
    inputs = make.question("large-values", size=0.0)
    inputs = replace(inputs, v=make.rounded(inputs.v * 1e37))
    asks = "values near 1e37 fit: the range is that of float32"
    yield make.case("large-values", asks, inputs, expected=uniform(inputs))
    inputs = make.question("steps-of-two", size=0.0)
    inputs = replace(inputs, v=make.rounded(256 + 2 * np.round(inputs.v)))
    asks = "from 256 on the numbers are 2 apart: sums of values must be kept wider"
    yield make.case("steps-of-two", asks, inputs, expected=uniform(inputs))
    inputs = make.question("large-scores", size=30.0)
    yield make.case("large-scores", "scores of hundreds are rounded to whole numbers", inputs)


def _ordinary(make: Making) -> Iterator[Case]:
    """What must hold in any precision, where sums are long or weights small."""
    asks = f"within what right code in {make.dtype} may be off on these very numbers"
    yield make.case("plain", asks, make.question("plain"))
    yield make.case("wide", asks, make.question("wide", d_k=128, d_v=16))
    yield make.case("grouped-heads", asks, make.question("grouped-heads", heads=6, kv_heads=3))
    inputs = masked(make.question("causal"), "causal")
    yield make.case("causal", asks, inputs, mask="causal")
    inputs = masked(make.question("empty-row"), "padding(0, 4)")
    yield make.case("empty-row", "a row that sees no key gives 0", inputs, mask="padding(0, 4)")
    inputs = make.question("many-keys", keys=513, batch=1)
    inputs = replace(inputs, k=np.zeros_like(inputs.k))
    words = "513 equal weights: each is rounded, and their sum must be kept wider"
    yield make.case("many-keys", words, inputs, expected=uniform(inputs))
    added = make.normal("additive", "additive", 5, 7)
    added[:, 2] = -np.inf
    inputs = make.question("additive", additive=added)
    yield make.case("additive", "−∞ hides a key", inputs, mask="adds (5, 7) with −∞")
