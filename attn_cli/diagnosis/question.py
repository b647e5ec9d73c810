"""Question: one thing that somebody's code is asked, and the same as AttentionInputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.masks import BoolArray

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What the code is given, in attn's own layout, and (`inputs`) what it is meant to compute.

    `given` maps roles to arrays: token vectors x and context, or q, k and v where they are token
    vectors (B, n, d); q (B, H, L, d) and so on where `layout` has an axis of heads. `keep` is the
    mask that is passed, True = may attend, and `bias` what is added to the scores; both have the
    axes of (B, H, L, S), 1 where they do not depend on one. `steps` are the lengths of the calls
    that share a cache; together they are L. `inputs` has the code's own masks and positions too.
    """

    name: str
    layout: str
    given: Mapping[str, Array]
    inputs: AttentionInputs
    keep: BoolArray | None = None
    bias: Array | None = None
    steps: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, L, S)."""
        return self.inputs.shape

    @property
    def stage(self) -> str:
        """The reference's stage that the code's output is: context, merged or output."""
        if self.inputs.x is None:
            return "context"
        return "merged" if self.inputs.output_projection is None else "output"

    @property
    def empty(self) -> BoolArray:
        """(B, H, L): the rows that see no key, by whatever mask."""
        visible = self.inputs.visible()
        if visible is None:
            return np.zeros(self.shape[:3], dtype=bool)
        return np.logical_not(visible.any(axis=-1))

    @property
    def judged(self) -> BoolArray:
        """(B, H, L): the rows that count: they see a key, and their query is no padding."""
        padding_only = self.keep is not None and self.keep.shape[1:3] == (1, 1)
        itself = "x" in self.given and "context" not in self.given
        if not (padding_only and itself):
            return ~self.empty
        assert self.keep is not None
        judged: BoolArray = ~self.empty & self.keep[:, :, 0, :]
        return judged
