"""A model in plain NumPy, one sum at a time: what the tests hold attn against.

Shares no code with attn: heads, keys and positions are loops, RoPE is complex numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.unit.models.files import Toy

Array = NDArray[Any]


def logits_by_hand(made: Toy, ids: Sequence[int]) -> tuple[Array, list[Array]]:
    """The logits (L, vocabulary), and every layer's weights (H, L, L)."""
    config, arrays = made.config, made.arrays
    stream = np.array([arrays["embedding.weight"][i] for i in ids])
    for p in range(len(ids)):
        stream[p] = stream[p] + added_at(p, made)
    weights = []
    for number in range(config["layers"]):
        part = {
            name.removeprefix(f"layers.{number}."): array
            for name, array in arrays.items()
            if name.startswith(f"layers.{number}.")
        }
        norm = config.get("norm", "none")
        x = normed(stream, part, config) if norm == "pre" else stream
        output, its = attention(x, part, config, arrays)
        stream = stream + output if config.get("residual", True) else output
        stream = normed(stream, part, config) if norm == "post" else stream
        weights.append(its)
    if "final_norm.weight" in arrays:
        last = {"norm.weight": arrays["final_norm.weight"], "norm.bias": np.zeros(())}
        stream = normed(stream, last, config)
    return stream @ arrays["unembedding.weight"].T, weights


def added_at(p: int, made: Toy) -> Array:
    """What position p adds to its token's vector."""
    width = made.config["d_model"]
    scheme = made.config.get("positions", "none")
    if scheme == "learned":
        return np.asarray(made.arrays["positions.weight"][p])
    if scheme != "sinusoidal":
        return np.zeros(width)
    turn = [p / 10_000 ** (2 * (i // 2) / width) for i in range(width)]
    return np.array([np.cos(t) if i % 2 else np.sin(t) for i, t in enumerate(turn)])


def normed(x: Array, part: Mapping[str, Array], config: Mapping[str, Any]) -> Array:
    rows = []
    for row in x:
        spread = np.sqrt(np.var(row) + config.get("norm_eps", 1e-5))
        rows.append((row - np.mean(row)) / spread * part["norm.weight"] + part["norm.bias"])
    return np.array(rows)


def attention(
    x: Array, part: Mapping[str, Array], config: Mapping[str, Any], arrays: Mapping[str, Array]
) -> tuple[Array, Array]:
    """The output (L, d_model) and the weights (H, L, L) of one layer."""
    heads, d_k, d_v = config["heads"], config["d_k"], config["d_v"]
    group = heads // config.get("kv_heads", heads)
    q, k, v = x @ part["w_q"] + part["b_q"], x @ part["w_k"], x @ part["w_v"]
    every, contexts = [], []
    for head in range(heads):
        mine = slice(head * d_k, (head + 1) * d_k)
        shared = head // group
        keys = k[:, shared * d_k : (shared + 1) * d_k]
        scores = [
            [score(q[i, mine], keys[j], i, j, head, config, arrays) for j in range(len(x))]
            for i in range(len(x))
        ]
        e = np.exp(np.array(scores))
        weights = e / e.sum(1, keepdims=True)
        every.append(weights)
        contexts.append(weights @ v[:, shared * d_v : (shared + 1) * d_v])
    return np.hstack(contexts) @ part["w_o"] + part["b_o"], np.array(every)


def score(
    q: Array, k: Array, i: int, j: int, head: int, config: Mapping[str, Any], arrays: Any
) -> float:
    """The score of query i and key j, −inf where the causal mask hides it."""
    if config.get("mask") == "causal" and j > i:
        return -np.inf
    scheme, d_k = config.get("positions", "none"), len(q)
    if scheme.startswith("rope"):
        q, k = turned(q, i, config), turned(k, j, config)
    scale = config.get("scale", d_k**-0.5)
    value = float(np.dot(q, k)) * (1.0 if scale == "none" else scale)
    if cap := config.get("softcap"):
        value = cap * np.tanh(value / cap)
    if scheme == "alibi":
        value -= 2 ** (-8 * (head + 1) / config["heads"]) * abs(i - j)
    if scheme == "relative":
        value += arrays["relative.weight"][_bucket_of_8(j - i), head]
    return float(value)


def turned(row: Array, p: int, config: Mapping[str, Any]) -> Array:
    """RoPE as complex numbers: pair n times e^(i · p · base^(−2n/d))."""
    d, base = len(row), config.get("rope_base", 10_000)
    apart = config["positions"] == "rope:interleaved"
    one, two = (row[0::2], row[1::2]) if apart else (row[: d // 2], row[d // 2 :])
    pairs = (one + 1j * two) * np.exp(1j * p * base ** (-2 * np.arange(d // 2) / d))
    out = np.empty(d)
    if apart:
        out[0::2], out[1::2] = pairs.real, pairs.imag
    else:
        out[: d // 2], out[d // 2 :] = pairs.real, pairs.imag
    return out


def _bucket_of_8(offset: int) -> int:
    """T5's bucket of 8, both ways, for offsets of less than 3: 0, ±1, and ±2 shared with more."""
    return min(abs(offset), 2) + (4 if offset > 0 else 0)
