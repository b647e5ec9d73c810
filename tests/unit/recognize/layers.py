"""One attention layer, kept by the names and in the layouts that programs use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.layer import Projections
from attn_cli.core.settings import Choices
from attn_cli.recognize import understand
from attn_cli.recognize.reading import Reading
from tests.unit.recognize.dumps import dump_of, normal

Array = NDArray[Any]
Arrays = dict[str, Array]

D_MODEL, HEADS, KV_HEADS, D_K, D_V = 8, 2, 2, 3, 5
# (in, out), as on paper; every size differs from d_model, so shapes tell the layouts apart.
W: Arrays = {
    "q": normal(8, 6, seed=1),
    "k": normal(8, 6, seed=2),
    "v": normal(8, 10, seed=3),
    "o": normal(10, 8, seed=4),
}
B: Arrays = {name: normal(W[name].shape[1], seed=5 + i) for i, name in enumerate(W)}


def linear(names: str, *, prefix: str = "", bias: bool = True) -> Arrays:
    """Modules as PyTorch's Linear: weight (out, in) and bias; `names` for q, k, v and perhaps o."""
    arrays: Arrays = {}
    for part, module in zip("qkvo", names.split(), strict=False):
        arrays[f"{prefix}{module}.weight"] = W[part].T
        if bias:
            arrays[f"{prefix}{module}.bias"] = B[part]
    return arrays


def paper(form: str) -> Arrays:
    """(in, out) under bare names such as w_q; `form` has a place for the letter."""
    return {form.format(part): W[part] for part in "qkvo"}


def fused(name: str, out: str, *, transposed: bool) -> Arrays:
    """One matrix for q, k and v of equal widths, as of the equal layer below."""
    qkv = np.concatenate([EQUAL[part] for part in "qkv"], axis=1)
    return {
        name: qkv.T if transposed else qkv,
        out: EQUAL["o"].T if transposed else EQUAL["o"],
    }


# A layer of equal widths, as fused matrices mostly have them: 2 heads of 4 for d_model 8.
EQUAL: Arrays = {part: normal(8, 8, seed=11 + i) for i, part in enumerate("qkvo")}

STYLES: dict[str, Callable[[], Arrays]] = {
    "w_q": lambda: paper("w_{}"),
    "W_q": lambda: paper("W_{}"),
    "wq": lambda: paper("w{}"),
    "llama": lambda: linear("q_proj k_proj v_proj o_proj", bias=False),
    "llama with a prefix": lambda: linear(
        "q_proj k_proj v_proj o_proj", prefix="model.layers.7.self_attn."
    ),
    "opt": lambda: linear("q_proj k_proj v_proj out_proj", prefix="self_attn."),
    "bert": lambda: {
        **linear("query key value", prefix="attention.self."),
        "attention.output.dense.weight": W["o"].T,
        "attention.output.dense.bias": B["o"],
        "output.dense.weight": normal(8, 32),
        "intermediate.dense.weight": normal(32, 8),
    },
    "vit": lambda: {
        **linear("query key value", prefix="encoder.layer.0.attention.attention."),
        "encoder.layer.0.attention.output.dense.weight": W["o"].T,
        "encoder.layer.0.attention.output.dense.bias": B["o"],
    },
    "diffusers": lambda: linear("to_q to_k to_v to_out.0", prefix="attn1."),
    "distilbert": lambda: linear("q_lin k_lin v_lin out_lin", prefix="attention."),
    "t5": lambda: linear("q k v o", prefix="SelfAttention.", bias=False),
    "meta": lambda: linear("wq wk wv wo", prefix="layers.0.attention.", bias=False),
    "whisper": lambda: linear("query key value out", prefix="attn."),
    "flax": lambda: {
        name.replace(".", "/"): array
        for name, array in linear("q_proj k_proj v_proj out_proj", prefix="attn.").items()
    },
    "mha of other widths": lambda: {
        "q_proj_weight": W["q"].T,
        "k_proj_weight": W["k"].T,
        "v_proj_weight": W["v"].T,
        "in_proj_bias": np.concatenate([B[part] for part in "qkv"]),
        "out_proj.weight": W["o"].T,
        "out_proj.bias": B["o"],
    },
    "fused kv": lambda: {
        "to_q.weight": W["q"].T,
        "to_kv.weight": np.concatenate([W["k"], W["v"]], axis=1).T,
        "to_out.weight": W["o"].T,
    },
    "per head": lambda: {
        "blocks.0.attn.W_Q": W["q"].reshape(8, 2, 3).swapaxes(0, 1),
        "blocks.0.attn.W_K": W["k"].reshape(8, 2, 3).swapaxes(0, 1),
        "blocks.0.attn.W_V": W["v"].reshape(8, 2, 5).swapaxes(0, 1),
        "blocks.0.attn.W_O": W["o"].reshape(2, 5, 8),
        "blocks.0.attn.b_Q": B["q"].reshape(2, 3),
        "blocks.0.attn.b_O": B["o"],
    },
}
FUSED: dict[str, Callable[[], Arrays]] = {
    "in_proj_weight": lambda: fused("in_proj_weight", "out_proj.weight", transposed=True),
    "timm": lambda: fused("attn.qkv.weight", "attn.proj.weight", transposed=True),
    "gpt2": lambda: fused("h.0.attn.c_attn.weight", "h.0.attn.c_proj.weight", transposed=False),
    "nanogpt": lambda: fused("attn.c_attn.weight", "attn.c_proj.weight", transposed=True),
    "mpt": lambda: fused("attn.Wqkv.weight", "attn.out_proj.weight", transposed=True),
    "lucidrains": lambda: fused("to_qkv.weight", "to_out.weight", transposed=True),
    "w_qkv": lambda: fused("w_qkv", "w_o", transposed=False),
}


X = normal(4, 8, seed=20)


def with_weights(weights: dict[str, Any], *, x: Any = X, **choices: Any) -> Reading:
    """Token vectors with the layer in a file of its own."""
    layer = dump_of(**weights, source="layer.npz")
    return understand(dump_of(x=x), Choices(**choices), weights=layer)


def projections(reading: Reading) -> Projections:
    """The projections that were read."""
    assert reading.inputs.origin is not None
    assert reading.inputs.origin.projections is not None
    return reading.inputs.origin.projections
