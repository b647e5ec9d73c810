"""Plain runs: attention by code that no engine shares, every sum in an order of its own.

Sums are kept in float32 or wider; every stage, and every operation within one that PyTorch would
round, is rounded to the precision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.plain_layer import Given, PlainLayer, Rounded, Seen, rounding

Array = NDArray[Any]
Random = np.random.Generator


def plain_item(
    inputs: AttentionInputs, b: int, *, layer: PlainLayer, orders: Sequence[Random]
) -> Iterator[Seen]:
    """Every stage of one batch item in the layer's precision, one head after the other.

    Sums within head h are taken in an order drawn from `orders[h]`. A step that is not taken gives
    the stage before it. Without token vectors the output is the context of every head.
    """
    q, k, v = yield from layer.given(inputs, b)
    group = inputs.shape[1] // inputs.kv_heads
    contexts = []
    for h, rng in enumerate(orders):
        given = q[h], k[h // group], v[h // group]
        stages = plain_run(inputs, b, h, dtype=layer.dtype, rng=rng, given=given)
        for name, array in stages.items():
            yield name, h, array
        contexts.append(stages["context"])
    if inputs.x is None:
        yield from (("output", h, context) for h, context in enumerate(contexts))
        return
    merged = np.concatenate(contexts, axis=-1)  # (L, H·d_v)
    yield "merged", None, merged
    yield "output", None, layer.linear(merged, inputs.output_projection, "o")


def plain_run(
    inputs: AttentionInputs,
    b: int,
    h: int,
    *,
    dtype: str,
    rng: Random,
    given: Given | None = None,
) -> dict[str, Array]:
    """The stages from scores to context of one (batch, head), summed in an order drawn from `rng`.

    `given` are its q (L, d_k), k (S, d_k) and v (S, d_v); without it they are those of `inputs`.
    """
    rounded = rounding(dtype)
    if given is None:
        kv = h // (inputs.shape[1] // inputs.kv_heads)
        given = rounded(inputs.q[b, h]), rounded(inputs.k[b, kv]), rounded(inputs.v[b, kv])
    q, k, v = given
    feature, key = rng.permutation(q.shape[1]), rng.permutation(k.shape[0])
    with np.errstate(all="ignore"):
        stages = {"scores": rounded(np.matmul(q[:, feature], k[:, feature].T))}
        stages |= _plain_scores(inputs, b, h, stages["scores"], rounded)
        stages["weights"] = rounded(_plain_softmax(inputs, h, stages["masked"], key, rounded))
        finite_v = np.where(np.isfinite(v), v, 0)  # rows that see the rest are compared as classes
        stages["context"] = rounded(np.matmul(stages["weights"][:, key], finite_v[key]))
    return stages


def _plain_scores(
    inputs: AttentionInputs, b: int, h: int, scores: Array, rounded: Rounded
) -> dict[str, Array]:
    scaled = rounded(scores * inputs.effective_scale)
    capped = scaled
    if inputs.softcap is not None:
        capped = rounded(rounded(np.tanh(rounded(scaled / inputs.softcap))) * inputs.softcap)
    biased = capped
    if inputs.has_bias:
        biased = rounded(capped + rounded(inputs.biased_by(b)[h]))
    masked = biased
    if inputs.additive is not None:
        masked = rounded(masked + rounded(inputs.added(b)[h]))
    seen = inputs.visible(b)
    if seen is not None:
        masked = np.where(seen[h], masked, -np.inf)
    return {"scaled": scaled, "softcapped": capped, "biased": biased, "masked": masked}


def _plain_softmax(
    inputs: AttentionInputs, h: int, masked: Array, key: Array, rounded: Rounded
) -> Array:
    """exp(s − max) / Σ with the keys summed in the order `key`; 0 in a row of −inf alone."""
    top = masked.max(1, keepdims=True)
    sink = -np.inf if inputs.sinks is None else rounded(inputs.sinks[h])
    top = np.maximum(top, sink)
    top = np.where(np.isneginf(top), 0, top)
    e = np.exp(masked - top)
    total = e[:, key].cumsum(1)[:, -1:] + np.exp(sink - top)
    return np.where(total == 0, 0, e / np.where(total == 0, 1, total))
