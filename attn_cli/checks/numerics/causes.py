"""Causes: what usually makes a stage overflow, and what helps, in words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from attn_cli.core.rounding import PRECISIONS


@dataclass(frozen=True, slots=True)
class Cause:
    """A code, what happened, and what helps."""

    code: str
    words: str
    fix: str


def not_a_number(label: str, value: float) -> Cause:
    """The input brings it."""
    return Cause(
        "input",
        f"{label} holds {_named(value)} as it was read: attention only passes it on",
        "look at what wrote it: an earlier layer that overflowed, a division by 0, an index "
        "outside an embedding, memory that was never filled",
    )


def beyond(label: str, value: float, dtype: str) -> Cause:
    """The input holds a number that the precision does not have."""
    return Cause(
        "input-overflow",
        f"{label} holds {value:.6g}, and {dtype} ends at {_limit(dtype)}",
        f"keep this array in {_wider(dtype)}, or make its numbers smaller before the cast",
    )


def score(query: str, key: str, dtype: str) -> Cause:
    """q · k passed the limit before the scale could help."""
    return Cause(
        "score-overflow",
        f"the product of query {query} and key {key} passes {dtype}'s limit {_limit(dtype)}; the "
        "scale, and the maximum that softmax subtracts, come too late",
        "scale q before the product",
    )


def row_of_infinity(query: str, dtype: str) -> Cause:
    """Every score of a row is −∞ although no key was hidden by −∞."""
    return Cause(
        "row-of-inf",
        f"every score of query {query} is −∞ after masking: {dtype} cannot hold the fills, and "
        "softmax of −∞ alone is NaN",
        "hide keys with a bool mask or −inf, never by adding fills twice, and set rows that see "
        "no key to 0",
    )


def of_stage(stage: str, dtype: str) -> Cause:
    """Overflow of any other stage."""
    if stage in ("q", "k", "v", "output"):
        product = "merged · W_o" if stage == "output" else f"x · W_{stage}"
        words = f"the sum {product} passes {dtype}'s limit {_limit(dtype)}"
        fix = "normalise what comes in (LayerNorm) or make the matrix smaller"
        return Cause("projection-overflow", words, f"keep this step in {_wider(dtype)}; {fix}")
    if stage == "context":
        return Cause(
            "context-overflow",
            f"values lie at {dtype}'s limit {_limit(dtype)}, and rounded weights may sum to a "
            "little more than 1",
            f"keep this step in {_wider(dtype)}, or make v smaller",
        )
    fixes = {
        "scaled": "take a smaller scale: 1/√d_k",
        "softcapped": "take a smaller softcap",
        "biased": "make the bias smaller; to hide a key take −inf, not a large number",
        "masked": "mask with −inf or a bool mask; a number that is added need not be large",
        "weights": "keep the softmax in float32",
    }
    words = f"{stage} passes {dtype}'s limit {_limit(dtype)}, and what came before it did not"
    return Cause(f"{stage}-overflow", words, fixes.get(stage, f"keep it in {_wider(dtype)}"))


def of_stream(stage: str, formula: str, dtype: str) -> Cause:
    """A step around attention."""
    words = f"{stage}, {formula}, is not finite in {dtype}"
    return Cause("stream", words, f"keep what runs between the layers in {_wider(dtype)}")


def carried(layer: int) -> Cause:
    """What came out of the layer before."""
    return Cause(
        "carried",
        f"it comes from layer {layer - 1}",
        "look at the first layer that is not finite",
    )


def _limit(dtype: str) -> str:
    return f"{PRECISIONS[dtype].largest:.6g}"


def _wider(dtype: str) -> str:
    return {"float16": "bfloat16 or float32", "bfloat16": "float32"}.get(dtype, "float64")


def _named(value: float) -> str:
    return "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"
