"""Model files for tests: seeded arrays, a config, a vocabulary, and safetensors to hold them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

Array = NDArray[Any]
WORDS = ("the", "cat", "sat", "down", ".")


@dataclass(frozen=True)
class Toy:
    """What a model's file holds."""

    arrays: Mapping[str, Array]
    config: Mapping[str, Any]
    words: Sequence[str] = WORDS
    metadata: Mapping[str, str] = field(default_factory=dict)

    def save(self, path: Path) -> str:
        """Written by the format's own library; returns the path."""
        said = {"config": json.dumps(self.config), "vocabulary": json.dumps(list(self.words))}
        said |= self.metadata
        kept = {name: text for name, text in said.items() if text}
        save_file(dict(self.arrays), path, metadata=kept)
        return str(path)

    def without(self, *names: str) -> Toy:
        return replace(self, arrays={n: a for n, a in self.arrays.items() if n not in names})

    def with_arrays(self, arrays: Mapping[str, Array]) -> Toy:
        return replace(self, arrays={**self.arrays, **arrays})

    def configured(self, **changes: Any) -> Toy:
        return replace(self, config={**self.config, **changes})


def toy(*, layers: int = 1, seed: int = 0, **config: Any) -> Toy:
    """d_model 6, two heads of d_k 4 and d_v 3, five words; with whatever the config asks for."""
    said: dict[str, Any] = {"layers": layers, "heads": 2, "d_model": 6, "d_k": 4, "d_v": 3}
    said |= config
    rng = np.random.default_rng(seed)
    heads, kv = said["heads"], said.get("kv_heads", said["heads"])
    width, d_k, d_v = said["d_model"], said["d_k"], said["d_v"]
    arrays: dict[str, Array] = {"embedding.weight": _draw(rng, 5, width)}
    if said.get("positions") == "learned":
        arrays["positions.weight"] = _draw(rng, 7, width)
    if said.get("positions") == "relative":
        arrays["relative.weight"] = _draw(rng, 8, heads)
    for number in range(layers):
        shapes = {
            "w_q": (width, heads * d_k),
            "w_k": (width, kv * d_k),
            "w_v": (width, kv * d_v),
            "w_o": (heads * d_v, width),
            "b_q": (heads * d_k,),
            "b_o": (width,),
        }
        if said.get("norm", "none") != "none":
            shapes |= {"norm.weight": (width,), "norm.bias": (width,)}
        arrays |= {f"layers.{number}.{name}": _draw(rng, *shape) for name, shape in shapes.items()}
    arrays["unembedding.weight"] = _draw(rng, 5, width)
    return Toy(arrays, said)


def _draw(rng: np.random.Generator, *shape: int) -> Array:
    """Small enough that scores stay in a range where every key counts."""
    return rng.normal(0, 0.4, shape)
