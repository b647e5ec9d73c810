"""Samples of whole layers: token vectors through positions and projections to the output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.layer import Origin, Projections, make_qkv
from attn_cli.positions.alibi import Alibi, slopes
from attn_cli.positions.relative import RelativeBias
from attn_cli.positions.rope import Rope
from attn_cli.positions.sinusoidal import sinusoidal
from tests.agreement.samples import built, drawn

Array = NDArray[Any]


def layer(
    seed: int,
    *,
    batch: int = 2,
    length: int = 5,
    d_model: int = 10,
    heads: int = 2,
    kv_heads: int | None = None,
    d_k: int = 4,
    d_v: int = 6,
    biases: bool = False,
    output: bool = True,
    context: tuple[int, int] | None = None,
    encoding: bool = False,
    projected: bool = True,
    size: float = 1.0,
    **more: Any,
) -> AttentionInputs:
    """A layer of normal numbers whose sizes all differ; `context` is (S, d_context).

    `more` goes to AttentionInputs as it is.
    """
    draw = np.random.default_rng(seed).normal
    kv_heads = kv_heads or heads
    keys, d_context = context or (length, d_model)
    out = {"q": heads * d_k, "k": kv_heads * d_k, "v": kv_heads * d_v, "o": d_model}
    into = {"q": d_model, "k": d_context, "v": d_context, "o": heads * d_v}
    letters = "qkvo" if output else "qkv"
    matrices = {
        f"w_{name}": draw(size=(into[name], out[name])) / np.sqrt(into[name]) for name in letters
    }
    added = {f"b_{name}": draw(size=out[name]) for name in letters} if biases else {}
    origin = Origin(
        x=draw(size=(batch, length, d_model)) * size,
        heads=heads,
        kv_heads=kv_heads,
        context=None if context is None else draw(size=(batch, keys, d_context)),
        encoding=sinusoidal(np.arange(length), d_model) if encoding else None,
        context_encoding=sinusoidal(np.arange(keys), d_context) if encoding and context else None,
        projections=Projections(**matrices, **added) if projected else None,
    )
    q, k, v = make_qkv(origin)
    return AttentionInputs(q=q, k=k, v=v, x=origin.x, origin=origin, **more)


def masked(inputs: AttentionInputs, text: str) -> AttentionInputs:
    return replace(inputs, mask=built(text, inputs))


def relative(seed: int, heads: int, *, bidirectional: bool) -> RelativeBias:
    table = np.random.default_rng(seed).normal(size=(8, heads))
    return RelativeBias(table, bidirectional, max_distance=16)


def _everything() -> AttentionInputs:
    inputs = layer(
        108,
        heads=4,
        kv_heads=2,
        d_k=6,
        d_v=3,
        biases=True,
        encoding=True,
        rotation=Rope("interleaved", 100.0),
        position_bias=Alibi(slopes(4)),
        bias=np.random.default_rng(109).normal(size=(4, 1, 5)),
        softcap=3.0,
        scale=0.6,
        sinks=np.array([0.3, -1.0, 2.0, 0.0]),
    )
    return masked(inputs, "causal & padding(5, 3)")


LAYERS: dict[str, Callable[[], AttentionInputs]] = {
    "projections": lambda: layer(100),
    "biases": lambda: layer(101, biases=True),
    "grouped": lambda: layer(102, heads=4, kv_heads=2, d_k=6, d_v=3),
    "no_output_projection": lambda: layer(103, output=False),
    "added_positions": lambda: layer(104, encoding=True, biases=True),
    "added_without_projections": lambda: layer(105, encoding=True, projected=False),
    "another_sequence": lambda: layer(106, context=(7, 9), q_offset=None),
    "another_sequence_with_positions": lambda: layer(
        107, context=(7, 9), encoding=True, rotation=Rope("half"), q_offset=2
    ),
    "rope_half": lambda: layer(110, d_k=8, rotation=Rope("half")),
    "rope_interleaved": lambda: layer(111, d_k=8, rotation=Rope("interleaved", 500.0)),
    "rope_far_away": lambda: layer(112, d_k=8, rotation=Rope("half"), q_offset=4000),
    "rope_on_q_and_k": lambda: drawn(113, heads=4, kv_heads=2, rotation=Rope("half")),
    "alibi": lambda: masked(layer(114, heads=3, position_bias=Alibi(slopes(3))), "causal"),
    "relative": lambda: layer(115, position_bias=relative(116, 2, bidirectional=True)),
    "relative_past": lambda: masked(
        layer(117, position_bias=relative(118, 2, bidirectional=False)), "causal"
    ),
    "large_vectors": lambda: layer(119, size=20.0, biases=True),
    "wide": lambda: layer(120, batch=1, length=9, d_model=96, heads=3, d_k=16, d_v=32),
    "everything": _everything,
}
