"""Row: what the engine computed for one query of one batch item, caught as it passes by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.engine import Seen, Watcher
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.steps import steps
from attn_cli.core.trace import ALL_STAGES, BEFORE

Array = NDArray[Any]

WHOLE = frozenset({"k", "v", "k_rotated"})  # every query meets all of them
VISIBLE = "visible"
HEADLESS = frozenset({"x", "x_positions", "merged", "output"})  # (L, width); the others (H, L, …)


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """The stages of query `query` of item `item`: q (H, d_k), k (Hkv, S, d_k), weights (H, S), …"""

    inputs: AttentionInputs
    item: int
    query: int
    stages: dict[str, Array] = field(default_factory=dict)

    @property
    def watch(self) -> Mapping[str, Watcher]:
        """The watcher of each stage, for the engine."""
        return dict.fromkeys(ALL_STAGES, self.see)

    def see(self, seen: Seen) -> None:
        """Keeps this row of a stage."""
        if seen.batch != self.item:
            return
        if seen.stage in WHOLE:
            row = seen.array
        elif seen.stage in HEADLESS:
            row = seen.array[self.query]
        else:
            row = seen.array[:, self.query]
        self.stages[seen.stage] = np.array(row, np.float64)
        if seen.visible is not None and VISIBLE not in self.stages:
            self.stages[VISIBLE] = seen.visible[:, self.query].copy()

    def __getitem__(self, stage: str) -> Array:
        """The stage; one whose step was not taken is the one before it."""
        while stage not in self.stages:
            stage = BEFORE[stage]
        return self.stages[stage]

    def formula(self, stage: str) -> str:
        """How the shape trace says that a stage comes about."""
        (formula,) = (s.formula for s in steps(self.inputs, "float64") if s.stage == stage)
        return formula

    def turned(self, name: str) -> Array:
        """q or k as it enters the product: turned by its positions where there is a rotation."""
        return self[f"{name}_rotated"]

    def visible(self, head: int) -> NDArray[np.bool_]:
        """(S,): the keys that take part."""
        seen = self.stages.get(VISIBLE)
        return np.ones(self.inputs.shape[3], bool) if seen is None else seen[head]

    def kv_head(self, head: int) -> int:
        """The key/value head that a query head reads."""
        return head // (self.inputs.shape[1] // self.inputs.kv_heads)
