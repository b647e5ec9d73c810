"""Trace: the answer, as the named intermediate arrays of one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.findings import Finding
from attn_cli.errors import InputError

Array = NDArray[Any]

SCORE_STAGES = ("scores", "scaled", "softcapped", "biased", "masked", "weights")
STAGES = (*SCORE_STAGES, "context")
# What a run may show, in the order of the formula; x and the merged heads need token vectors.
GIVEN_STAGES = ("x", "x_positions", "q", "k", "v", "q_rotated", "k_rotated")
ALL_STAGES = (*GIVEN_STAGES, *STAGES, "merged", "output")
# Around the attention of a model's layer: what comes into it, and what goes on.
MODEL_STAGES = ("embedded", "stream", "residual", "normed", "final", "logits")
EVERY_STAGE = (*MODEL_STAGES[:2], *ALL_STAGES, *MODEL_STAGES[2:])

# A step that is not taken changes nothing: its stage is then the one before it.
BEFORE = {
    "x_positions": "x",
    "q_rotated": "q",
    "k_rotated": "k",
    "scaled": "scores",
    "softcapped": "scaled",
    "biased": "softcapped",
    "masked": "biased",
    "output": "context",
}

SCORE_AXES = ("batch", "head", "query", "key")
CONTEXT_AXES = ("batch", "head", "query", "d_v")


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """One intermediate array. `dtype` is its precision: bfloat16 values lie in a float32 array."""

    array: Array
    axes: tuple[str, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class StageShape:
    """One line of the shape trace: a step that was taken, kept in memory or not."""

    stage: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    formula: str
    layer: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "layer": self.layer,
            "stage": self.stage,
            "axes": list(self.axes),
            "shape": list(self.shape),
            "dtype": self.dtype,
            "formula": self.formula,
        }


@dataclass(frozen=True, slots=True, eq=False)
class TopKeys:
    """The keys with the largest weights of each row: (B, H, L, K), best first, ties by position.

    Where a row sees fewer keys the rest of `keys` is −1 and of `weights` NaN.
    """

    keys: NDArray[np.int64]
    weights: Array


@dataclass(frozen=True, slots=True)
class Provenance:
    """What made a trace: enough to make it again."""

    attn: str
    python: str
    numpy: str
    torch: str | None
    device: str
    dtype: str
    seed: int | None = None
    input_sha256: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """What an engine computed: the stages that were asked for and one number a row for the rest.

    `stages` holds only what was kept; `shapes` has every step that was taken and that the engine
    shows. `lse` (B, H, L) is ln Σ exp(masked score), sinks included; −inf in an empty row, which
    `empty` marks; None where the engine has none. `stats` maps a statistic's name to (B, H, L);
    without weights there are none, no top keys and no cosine. `cosine` (B, H, H) is the mean over
    rows of the cosine between two heads' weights, rows that are empty in either head left out (NaN
    where that leaves none). `received` (B, H, S) is the weight that a key gets from all rows
    together, NaN rows included; None where nobody asked.
    """

    engine: str
    stages: Mapping[str, Stage]
    shapes: tuple[StageShape, ...]
    lse: Array | None
    empty: NDArray[np.bool_]
    stats: Mapping[str, Array]
    top: TopKeys | None
    cosine: Array | None
    provenance: Provenance
    findings: tuple[Finding, ...] = field(default=())
    received: Array | None = None

    def __getitem__(self, stage: str) -> Array:
        """The array of one kept stage; InputError names the kept ones where it is not there."""
        if stage not in self.stages:
            raise InputError(
                f"the trace does not hold {stage!r}", hint=f"it holds {', '.join(self.stages)}"
            )
        return self.stages[stage].array
