"""Dumps written by code that knows nothing of attn: plain NumPy, plain PyTorch, and as in JAX."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

Array = NDArray[Any]
Spoil = Callable[[str, Array], Array]
B, H, L, D = 2, 3, 7, 8
ALL = ("q", "k", "v", "scores", "scaled", "masked", "weights", "context")


def qkv(seed: int = 0, dtype: str = "float32") -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    q, k, v = (
        rng.normal(size=(B, H, L, D)).astype(dtype) * np.dtype(dtype).type(1.3) for _ in "qkv"
    )
    return q, k, v


def in_numpy(
    *, spoil: Spoil = lambda name, array: array, seed: int = 0, dtype: str = "float32"
) -> dict[str, Array]:
    """Every stage of causal attention by attn's names; what `spoil` changes is gone on with."""
    q, k, v = qkv(seed, dtype)
    stages = {"q": q, "k": k, "v": v}

    def stage(name: str, array: Array) -> Array:
        stages[name] = spoil(name, array.astype(dtype))
        return stages[name]

    with np.errstate(invalid="ignore"):
        scores = stage("scores", q @ k.swapaxes(-1, -2))
        scaled = stage("scaled", scores / np.sqrt(D).astype(dtype))
        masked = stage("masked", np.where(np.tri(L, dtype=bool), scaled, -np.inf))
        e = np.exp(masked - masked.max(-1, keepdims=True))
        weights = stage("weights", e / e.sum(-1, keepdims=True))
        stage("context", weights @ v)
    return stages


def numpy_folder(path: Path, **more: Any) -> str:
    """Plain NumPy, one .npy a stage, with a beginner's names."""
    path.mkdir()
    names = {"q": "query", "k": "key", "v": "value", "scores": "qk", "scaled": "logits"}
    names |= {"weights": "attn_weights", "context": "attn_output"}
    stages = in_numpy(**more)
    for ours, theirs in names.items():
        np.save(path / f"{theirs}.npy", stages[ours])
    return str(path)


def torch_file(path: Path, dtype: torch.dtype = torch.bfloat16) -> str:
    """Plain PyTorch in a lower precision, in one .safetensors."""
    q, k, v = (torch.tensor(array).to(dtype) for array in qkv())
    scores = q @ k.transpose(-2, -1)
    masked = (scores / math.sqrt(D)).masked_fill(~torch.ones(L, L).tril().bool(), -torch.inf)
    probs = torch.softmax(masked, dim=-1)
    held = {
        "q": q,
        "k": k,
        "v": v,
        "dots": scores,
        "logits": masked,
        "probs": probs,
        "z": probs @ v,
    }
    save_file({name: tensor.contiguous() for name, tensor in held.items()}, path)
    return str(path)


def jax_file(path: Path) -> str:
    """As flax writes it: (batch, length, heads, features), einsum, logits that hold the scale."""
    query, key, value = (array.swapaxes(1, 2) for array in qkv())
    logits = np.einsum("bqhd,bkhd->bhqk", query / np.float32(math.sqrt(D)), key)
    logits = np.where(np.tri(L, dtype=bool), logits, -np.inf)
    e = np.exp(logits - logits.max(-1, keepdims=True))
    weights = e / e.sum(-1, keepdims=True)
    encoded = np.einsum("bhqk,bkhd->bqhd", weights, value)
    named = {"query": query, "key": key, "value": value, "attn_logits": logits}
    named |= {"attn_weights": weights, "encoded": encoded}
    single: dict[str, Any] = {name: array.astype(np.float32) for name, array in named.items()}
    np.savez(path, **single)
    return str(path)


def npz(path: Path, stages: Mapping[str, Any]) -> str:
    np.savez(path, **stages)
    return str(path)
