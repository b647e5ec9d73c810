"""The measured rounding budget: how far right code may be from float64 on this very input.

Per stage and (batch, head): 3 × the largest error against float64 over three plain runs with
permuted summation order, plus 2 ulp of the stage's largest value. A plain run is written here in
NumPy and shares no code with any engine: sums are kept in float32 or wider, and every stage is
rounded to the candidate's precision. Measured on the input at hand, it needs no tolerance that
somebody chose. In float64 the oracle rounds as much as the candidate, so there it is twice that:
once gives 4 false alarms in 17,500 comparisons, twice none in 42,000 (benchmarks/false_alarms.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.rounding import accumulator, precision, round_to
from attn_cli.core.trace import STAGES

Array = NDArray[Any]

RUNS = 3
FACTOR = 3.0
ULPS = 2.0


def measure_budget(
    inputs: AttentionInputs, oracle: Mapping[str, Array], *, dtype: str, seed: int = 0
) -> dict[str, Array]:
    """The budget of every stage that `oracle` holds: (B, H, 1, 1), to broadcast over the stage.

    `oracle` maps stages to the float64 answer, (B, H, L, S) or (B, H, L, d_v). Elements that are
    not finite are left out: they are compared as classes. Memory: one (batch, head) at a time.
    """
    batch, heads, _, _ = inputs.shape
    sides = 2.0 if dtype == "float64" else 1.0
    budgets = {name: np.zeros((batch, heads, 1, 1)) for name in STAGES if name in oracle}
    for b in range(batch):
        for h in range(heads):
            right = {name: np.asarray(oracle[name][b, h], np.float64) for name in budgets}
            error = _largest_error(inputs, b, h, right, dtype, np.random.default_rng([seed, b, h]))
            for name, values in right.items():
                largest = np.abs(values[np.isfinite(values)]).max(initial=0.0)
                ulp = float(precision(dtype).ulp(largest))
                budgets[name][b, h] = sides * (FACTOR * error[name] + ULPS * ulp)
    return budgets


def _largest_error(
    inputs: AttentionInputs,
    b: int,
    h: int,
    right: Mapping[str, Array],
    dtype: str,
    rng: np.random.Generator,
) -> dict[str, float]:
    """The largest error of each stage over the plain runs of one (batch, head)."""
    worst = dict.fromkeys(right, 0.0)
    for _ in range(RUNS):
        run = plain_run(inputs, b, h, dtype=dtype, rng=rng)
        for name, values in right.items():
            both = np.isfinite(run[name]) & np.isfinite(values)
            error = np.abs(run[name][both].astype(np.float64) - values[both]).max(initial=0.0)
            worst[name] = max(worst[name], float(error))
    return worst


def plain_run(
    inputs: AttentionInputs, b: int, h: int, *, dtype: str, rng: np.random.Generator
) -> dict[str, Array]:
    """Every stage of one (batch, head), in `dtype`, summed in an order drawn from `rng`."""
    wide = accumulator(dtype)
    kv = h // (inputs.shape[1] // inputs.kv_heads)

    def rounded(array: Array) -> Array:
        return round_to(np.asarray(array, wide), dtype).astype(wide)

    q, k, v = rounded(inputs.q[b, h]), rounded(inputs.k[b, kv]), rounded(inputs.v[b, kv])
    feature, key = rng.permutation(q.shape[1]), rng.permutation(k.shape[0])
    with np.errstate(all="ignore"):
        stages = {"scores": rounded(np.matmul(q[:, feature], k[:, feature].T))}
        stages |= _plain_scores(inputs, b, h, stages["scores"], rounded)
        stages["weights"] = rounded(_plain_softmax(inputs, h, stages["masked"], key, rounded))
        finite_v = np.where(np.isfinite(v), v, 0)  # rows that see the rest are compared as classes
        stages["context"] = rounded(np.matmul(stages["weights"][:, key], finite_v[key]))
    return stages


def _plain_scores(
    inputs: AttentionInputs, b: int, h: int, scores: Array, rounded: Any
) -> dict[str, Array]:
    scaled = rounded(scores * inputs.effective_scale)
    capped = scaled
    if inputs.softcap is not None:
        capped = rounded(rounded(np.tanh(rounded(scaled / inputs.softcap))) * inputs.softcap)
    biased = capped
    if inputs.bias is not None:
        biased = rounded(capped + rounded(inputs.biased_by(b)[h]))
    masked = biased
    if inputs.additive is not None:
        masked = rounded(masked + rounded(inputs.added(b)[h]))
    seen = inputs.visible(b)
    if seen is not None:
        masked = np.where(seen[h], masked, -np.inf)
    return {"scaled": scaled, "softcapped": capped, "biased": biased, "masked": masked}


def _plain_softmax(
    inputs: AttentionInputs, h: int, masked: Array, key: Array, rounded: Any
) -> Array:
    """exp(s − max) / Σ with the keys summed in the order `key`; 0 in a row of −inf alone."""
    top = masked.max(1, keepdims=True)
    sink = -np.inf if inputs.sinks is None else rounded(inputs.sinks[h])
    top = np.maximum(top, sink)
    top = np.where(np.isneginf(top), 0, top)
    e = np.exp(masked - top)
    total = e[:, key].cumsum(1)[:, -1:] + np.exp(sink - top)
    return np.where(total == 0, 0, e / np.where(total == 0, 1, total))
