"""Around: what lies around the attention of one batch item, in numpy, step by step.

Token vectors become q, k and v, turned by their positions; the heads come together again and go
through the output projection. An engine whose kernel knows nothing but attention works within it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.layer import linear, merge_heads, project
from attn_cli.core.recorder import Recorder
from attn_cli.core.rounding import accumulator, round_to

Array = NDArray[Any]


class Around:
    """One batch item's steps before and after attention; each is rounded to the precision, shown
    to the recorder and handed on in the precision in which sums are kept.

    `visible` (H, L, S) is what takes part; with `dense` False it is not made, and None.
    """

    def __init__(
        self, inputs: AttentionInputs, batch: int, recorder: Recorder, *, dense: bool = True
    ) -> None:
        self.inputs, self.batch, self.recorder = inputs, batch, recorder
        self.dtype = recorder.ask.dtype
        self.visible = inputs.visible(batch) if dense else None

    def cast(self, array: Array) -> Array:
        """The array rounded to the precision of the run, in that of its sums."""
        return round_to(array, self.dtype).astype(accumulator(self.dtype), copy=False)

    def stage(self, name: str, array: Array) -> Array:
        """The stage rounded and shown."""
        rounded = round_to(array, self.dtype)
        self.recorder.see(self.batch, name, rounded, self.visible)
        return rounded.astype(accumulator(self.dtype), copy=False)

    def before(self) -> tuple[Array, Array, Array]:
        """x → q (H, L, d_k), k (Hkv, S, d_k), v (Hkv, S, d_v), rotated where they are."""
        inputs, batch = self.inputs, self.batch
        if inputs.origin is not None:
            q, k, v = project(inputs.origin, batch, show=self.stage, cast=self.cast)
        else:
            if inputs.x is not None:
                self.stage("x", inputs.x[batch])
            q = self.stage("q", inputs.q[batch])
            k = self.stage("k", inputs.k[batch])
            v = self.stage("v", inputs.v[batch])
        if (turn := inputs.rotation) is not None:
            q = self.stage("q_rotated", turn.rotate(q, np.asarray(inputs.query_positions)))
            k = self.stage("k_rotated", turn.rotate(k, np.asarray(inputs.key_positions)))
        return q, k, v

    def after(self, context: Array) -> None:
        """The context (H, L, d_v), and from token vectors the merged heads and the output."""
        context = self.stage("context", context)
        if self.inputs.x is None:
            return
        merged = self.stage("merged", merge_heads(context[None])[0])  # (L, H·d_v)
        if (layer := self.inputs.output_projection) is not None and layer.w_o is not None:
            self.stage("output", linear(merged, layer.w_o, layer.b_o, self.cast))
