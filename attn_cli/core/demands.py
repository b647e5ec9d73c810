"""Demands: what an input asks of an engine beyond softmax(q·kᵀ ÷ √d_k)·v of equal sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from attn_cli.core.inputs import AttentionInputs

DEMANDS = (
    "mask",
    "additive",
    "bias",
    "softcap",
    "sinks",
    "grouped",
    "lengths",
    "widths",
    "scale",
    "nonfinite",
)


def demands(inputs: AttentionInputs) -> Iterator[tuple[str, str]]:
    """Every demand of DEMANDS that `inputs` makes, with the words for it in a sentence."""
    _, heads, queries, keys = inputs.shape
    d_k, d_v = inputs.q.shape[3], inputs.v.shape[3]
    if inputs.mask is not None or inputs.hides_by_adding:
        yield "mask", "a mask"
    if inputs.additive is not None:
        yield "additive", "an additive mask"
    if inputs.has_bias:
        yield "bias", "a bias"
    if inputs.softcap is not None:
        yield "softcap", "a softcap"
    if inputs.sinks is not None:
        yield "sinks", "sinks"
    if heads != inputs.kv_heads:
        yield "grouped", f"{heads} query heads on {inputs.kv_heads} key/value heads"
    if queries != keys:
        yield "lengths", f"{queries} queries and {keys} keys"
    if d_k != d_v:
        yield "widths", f"d_v {d_v} beside d_k {d_k}"
    if not math.isclose(inputs.effective_scale, 1 / math.sqrt(d_k)):
        yield "scale", f"the scale {inputs.effective_scale:.6g}"
    if not all(np.isfinite(array).all() for array in (inputs.q, inputs.k, inputs.v)):
        yield "nonfinite", "NaN or inf in q, k or v"
