"""Closed forms: what attention gives where no softmax need be computed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.checks.edges.case import Expected
from attn_cli.core.inputs import AttentionInputs

Array = NDArray[Any]


def weighted(inputs: AttentionInputs, weights: Array, words: str) -> Expected:
    """Weights (B, H, L, S) that are known, and the values mixed by them."""
    weights = np.broadcast_to(weights, inputs.shape)
    shares = weights[..., None, :] * _values(inputs).mT[:, :, None]  # (B, H, L, d_v, S)
    # The last axis is summed in pairs: a thousand terms lose a digit less than one by one.
    return Expected(words, np.ascontiguousarray(shares).sum(-1), weights)


def uniform(inputs: AttentionInputs) -> Expected:
    """Every visible key alike: 1 / n each, and the mean of their values; 0 where there is none."""
    seen = inputs.keep() if inputs.visible() is None else inputs.visible()
    assert seen is not None
    count = seen.sum(-1, keepdims=True)
    return weighted(inputs, seen / np.maximum(count, 1), "the mean of the visible values")


def only(inputs: AttentionInputs) -> Expected:
    """The one key that each row sees: weight 1, and its value to the last bit; rows may be empty.

    Hidden values take no part, whatever they hold.
    """
    seen = inputs.keep() if inputs.visible() is None else inputs.visible()
    assert seen is not None
    assert (seen.sum(-1) <= 1).all()
    value = np.take_along_axis(_values(inputs), seen.argmax(-1)[..., None], axis=2)
    output = np.where(seen.any(-1, keepdims=True), value, 0)
    return Expected("the value of the one visible key", output, seen.astype(np.float64), exact=True)


def chosen(inputs: AttentionInputs, key: int, words: str) -> Expected:
    """One key that outscores all others by far: weight 1 within rounding, and its value."""
    return weighted(inputs, np.eye(inputs.shape[3])[key], words)


def _values(inputs: AttentionInputs) -> Array:
    """v (B, H, S, d_v): head h reads key/value head h // (H / Hkv)."""
    return inputs.v[:, np.arange(inputs.shape[1]) // (inputs.shape[1] // inputs.kv_heads)]
