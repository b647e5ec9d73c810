"""Finite fills: scores of −1e9, or of the smallest float, that hide their keys as −∞ does."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.findings import Place, note
from attn_cli.core.inputs import FINITE_FILL, AttentionInputs
from attn_cli.core.results_diff import Side
from attn_cli.recognize.stage_dump import StageDump

Array = NDArray[Any]
# This far below the largest score of its row a key has weight 0 in every precision: float64's exp
# ends at −745. So nothing behind the mask moves when −∞ stands in its place.
NOTHING = 1000.0


def fills_read_as_hidden(dump: StageDump, side: Side) -> StageDump:
    """A dump whose masked scores, where a finite fill hides a key, hold −∞; a note says so.

    In a row that has nothing else the fill hides nothing, and stays.
    """
    masked = dump.stages.get("masked")
    if masked is None:
        return dump
    with np.errstate(invalid="ignore"):
        top = masked.max(-1, keepdims=True)
        filled = np.isfinite(masked) & (masked <= FINITE_FILL) & (masked < top - NOTHING)
    if not filled.any():
        return dump
    words = (
        f"{side} hides {filled.sum():,} masked scores with a fill such as "
        f"{masked[filled][0]:.6g}: held as −∞ would be, for its weight is 0"
    )
    return dataclasses.replace(
        dump,
        stages={**dump.stages, "masked": np.where(filled, -np.inf, masked)},
        findings=(*dump.findings, note("finite-fill", words, Place(stage="masked"))),
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
