"""Layers made by hand from seeded numbers: everything that a row's arithmetic may go through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs, Labels
from attn_cli.core.layer import Origin, Projections, project
from attn_cli.core.results import InputSummary
from attn_cli.core.settings import Settings
from attn_cli.recognize.reading import Reading
from tests.agreement.samples import built

Array = NDArray[Any]


@dataclass(frozen=True)
class Layer:
    """Sizes of a layer around the core and what acts in it; `extras` go to AttentionInputs."""

    tokens: int = 4
    d_model: int = 8
    heads: int = 2
    kv_heads: int = 2
    d_k: int = 4
    d_v: int = 3
    bias: bool = True
    out: int | None = 5  # None: no output projection
    encoding: bool = False
    keys: int | None = None  # a context of so many vectors
    mask: str = "none"
    seed: int = 0
    extras: dict[str, Any] = field(default_factory=dict)

    @property
    def reading(self) -> Reading:
        """The layer as a file would have been understood."""
        draw = np.random.default_rng(self.seed).normal
        origin = self._origin(draw)
        q, k, v = (part[None] for part in project(origin, 0, show=_unseen, cast=np.asarray))
        inputs = AttentionInputs(q, k, v, x=origin.x, origin=origin, **self.extras)
        mask = None if self.mask == "none" else built(self.mask, inputs)
        return reading_of(replace(inputs, mask=mask))

    def _origin(self, draw: Any) -> Origin:
        widths = (self.heads * self.d_k, self.kv_heads * self.d_k, self.kv_heads * self.d_v)
        w_q, w_k, w_v = (draw(size=(self.d_model, width)).round(3) for width in widths)
        b_q, b_k, b_v = (draw(size=width).round(2) if self.bias else None for width in widths)
        out = self.out is not None
        w_o = draw(size=(self.heads * self.d_v, self.out)).round(3) if out else None
        return Origin(
            x=draw(size=(1, self.tokens, self.d_model)).round(2),
            heads=self.heads,
            kv_heads=self.kv_heads,
            context=None if self.keys is None else draw(size=(1, self.keys, self.d_model)),
            encoding=draw(size=(self.tokens, self.d_model)) if self.encoding else None,
            context_encoding=draw(size=(self.keys, self.d_model)) if self.keys else None,
            projections=Projections(
                w_q, w_k, w_v, w_o, b_q, b_k, b_v, draw(size=self.out) if out else None
            ),
        )


def _unseen(stage: str, array: Array) -> Array:
    return array


def reading_of(inputs: AttentionInputs, tokens: Sequence[str] | None = None) -> Reading:
    """Inputs with what a file would have said of them."""
    batch, heads, queries, keys = inputs.shape
    vectors = inputs.x is not None
    summary = InputSummary(
        source="layer.npz",
        format="npz",
        kind="token vectors" if vectors else "q, k, v",
        batch=batch,
        queries=queries,
        keys=keys,
        d_model=inputs.x.shape[-1] if inputs.x is not None else None,
        d_k=inputs.q.shape[-1],
        d_v=inputs.v.shape[-1],
        precision="float64",
        sha256=None,
        tokens=tokens is not None,
    )
    scale, softcap = inputs.effective_scale, inputs.softcap
    settings = Settings(heads, inputs.kv_heads, scale, softcap, None, None, "bhld")
    if tokens is not None:
        inputs = replace(inputs, labels=Labels((tuple(tokens),) * batch, (tuple(tokens),) * batch))
    return Reading(inputs, summary, settings)


def heads_of(q: Any, k: Any, v: Any, **extras: Any) -> Reading:
    """Plain q, k and v of one head, from nested lists."""
    q, k, v = (np.asarray(array, float)[None, None] for array in (q, k, v))
    return reading_of(AttentionInputs(q, k, v, **extras))
