"""Finite fills: scores of −1e9, or of the smallest float, that hide their keys as −∞ does."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.findings import Finding, Place, note
from attn_cli.core.inputs import FINITE_FILL, AttentionInputs
from attn_cli.core.results_diff import Side
from attn_cli.recognize.stage_dump import StageDump

Array = NDArray[Any]
# This far below the largest score of its row a key has weight 0 in every precision: float64's exp
# ends at −745. So nothing behind the mask moves when −∞ stands in its place.
NOTHING = 1000.0


def filled(masked: Array) -> NDArray[np.bool_]:
    """Where finite fills hide keys, in masked scores (…, L, S).

    In a row that has nothing else the fill hides nothing.
    """
    with np.errstate(invalid="ignore"):
        low = np.minimum(FINITE_FILL, masked.max(-1, keepdims=True) - NOTHING)
        found: NDArray[np.bool_] = np.isfinite(masked) & (masked <= low)
    return found


def with_infinity(stages: Mapping[str, Array]) -> dict[str, Array]:
    """The stages of a side, whose masked scores hold −∞ where a finite fill hides a key."""
    held = dict(stages)
    if "masked" in held and (fills := filled(held["masked"])).any():
        held["masked"] = np.where(fills, -np.inf, held["masked"])
    return held


def said_of_fills(dump: StageDump, side: Side) -> Iterator[Finding]:
    """A note of the fills of a side's masked scores."""
    masked = dump.stages.get("masked")
    if masked is not None and (fills := filled(masked)).any():
        yield note(
            "finite-fill",
            f"{side} hides {fills.sum():,} masked scores with a fill such as "
            f"{masked[fills][0]:.6g} where others have −∞: a convention and no fault, for the "
            "weights are 0 alike",
            Place(stage="masked"),
        )


def fills_hidden(inputs: AttentionInputs) -> AttentionInputs:
    """One item's inputs whose additive mask hides with −∞ where a fill hides a key.

    In a row that sees no other key the fill hides nothing, and stays.
    """
    counted = inputs.counted(0)
    if inputs.additive is None or counted is None:
        return inputs
    added = inputs.added(0)
    filled = (added <= FINITE_FILL) & counted.any(-1, keepdims=True)
    return dataclasses.replace(inputs, additive=np.where(filled, -np.inf, added)[None])
