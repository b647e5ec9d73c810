"""Findings about masks: how many keys they hide, and one that hides nothing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.findings import Finding, Place, note
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.trace import Trace


class HiddenCount:
    """How many keys are hidden, for every (batch, head); whatever an engine shows.

    `take` has them from the rows of a run, where it counted them; else the mask is evaluated.
    """

    def __init__(self, inputs: AttentionInputs) -> None:
        self.inputs = inputs
        self._visible: NDArray[Any] | None = None

    def take(self, trace: Trace) -> None:
        """What a run counted, row by row."""
        self._visible = trace.stats.get("visible_keys")

    @cached_property
    def hidden(self) -> NDArray[np.int64]:
        _, _, queries, keys = self.inputs.shape
        if self._visible is not None:
            return np.asarray(queries * keys - self._visible.sum(-1), np.int64)
        hidden = np.zeros(self.inputs.shape[:2], np.int64)
        for batch in range(len(hidden)):
            counted = self.inputs.counted(batch)
            if counted is not None:
                hidden[batch] = (~counted).sum((1, 2))
        return hidden

    @property
    def words(self) -> str:
        """`hides 3 of 9` where every head is alike, else `hides 5 of 18 in all`."""
        batch, heads, queries, keys = self.inputs.shape
        if (self.hidden == self.hidden[0, 0]).all():
            return f"hides {self.hidden[0, 0]:,} of {queries * keys:,}"
        return f"hides {self.hidden.sum():,} of {batch * heads * queries * keys:,} in all"


def mask_findings(inputs: AttentionInputs, hidden: HiddenCount) -> Iterator[Finding]:
    """A note where there is a mask and every query sees every key."""
    masked = inputs.mask is not None or inputs.additive is not None
    if masked and not hidden.hidden.any():
        yield note(
            "mask-hides-nothing",
            "the mask hides nothing: every query sees every key",
            Place(stage="masked", layer=0),
        )
