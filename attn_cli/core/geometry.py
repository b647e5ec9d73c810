"""Geometry: the sizes of one attention layer, without its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["softmax", "linear", "state-space", "convolution", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latent:
    """Multi-head latent attention: k and v (and perhaps q) come out of narrow latent vectors.

    `q_rank` is None where q is projected directly. A head's query and key are `d_nope` features of
    its own followed by `d_rope` that carry the position; the key's d_rope are shared by all heads,
    so a cache holds `kv_rank` + `d_rope` numbers a token.
    """

    q_rank: int | None
    kv_rank: int
    d_nope: int
    d_rope: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """The sizes and settings of one attention layer; no batch and no lengths.

    `d_model` None: q, k and v are given, there are no projections. `d_context` is the width of the
    vectors that k and v come from, where it is not d_model. `projected` says whether W_q, W_k and
    W_v are there, `d_out` the width behind W_o (None: no W_o). `biases` are of q, k, v, o. `window`
    counts keys as the mask `window` does: the query's own included. `scale` None is 1/√d_k.
    """

    heads: int
    kv_heads: int
    d_k: int
    d_v: int
    d_model: int | None = None
    d_context: int | None = None
    d_out: int | None = None
    projected: bool = False
    biases: frozenset[str] = frozenset()
    cross: bool = False
    causal: bool = False
    window: int | None = None
    chunk: int | None = None  # attends within chunks of so many positions
    scale: float | None = None
    softcap: float | None = None
    sinks: bool = False
    gated: bool = False  # the context is multiplied by the sigmoid of what W_q's other half makes
    positions: str | None = None  # "rope", "learned", "relative", "alibi", "sinusoidal"; None: none
    latent: Latent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGeometry:
    """One layer of a checkpoint: where it is, what mixes its tokens, and its sizes if attention.

    `path` is the module's, "model.layers.3.self_attn"; `index` counts the layers of one stack from
    0, and `stack` names it where there are several ("encoder", "decoder"). `kind` other than
    softmax has no geometry; `says` is the family's own word for it ("mamba", "gated delta-net").
    """

    path: str
    index: int
    kind: Kind
    says: str
    stack: str = ""
    geometry: Geometry | None = None
