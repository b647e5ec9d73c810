"""Initial projections: the matrices that an untrained attention layer starts from, seeded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from attn_cli.core.draws import normal, uniform
from attn_cli.core.layer import Projections
from attn_cli.core.settings import Init

Array = NDArray[Any]

# Each matrix and bias draws from a stream of its own: its numbers do not depend on the others.
STREAMS = ("w_q", "w_k", "w_v", "w_o", "b_q", "b_k", "b_v", "b_o")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The widths of a layer; the queries' vectors are d_model wide, those attended to d_context."""

    d_model: int
    d_context: int
    heads: int
    kv_heads: int
    d_k: int
    d_v: int

    @property
    def matrices(self) -> dict[str, tuple[int, int]]:
        """The shape (in, out) of every matrix; W_o leads back to d_model."""
        return {
            "w_q": (self.d_model, self.heads * self.d_k),
            "w_k": (self.d_context, self.kv_heads * self.d_k),
            "w_v": (self.d_context, self.kv_heads * self.d_v),
            "w_o": (self.heads * self.d_v, self.d_model),
        }

    @property
    def numbers(self) -> int:
        """How many numbers the matrices hold."""
        return sum(before * after for before, after in self.matrices.values())


def initial(init: Init, seed: int, sizes: Sizes) -> Projections:
    """Projections as a layer starts with them, the same for a seed on every machine.

    `xavier`: uniform between ±√(6 / (in + out)), no biases (Glorot and Bengio 2010, eq. 16).
    `default`: uniform between ±1/√in, biases too, as PyTorch's nn.Linear starts.
    `normal`: unit normal, no biases. in and out are those of the whole matrix, all heads together.
    """
    drawn: dict[str, Array] = {}
    for name, (before, after) in sizes.matrices.items():
        stream = STREAMS.index(name)
        if init == "normal":
            drawn[name] = normal(seed, stream, (before, after))
            continue
        limit = math.sqrt(6 / (before + after)) if init == "xavier" else math.sqrt(1 / before)
        drawn[name] = between(limit, uniform(seed, stream, (before, after)))
        if init == "default":
            bias = f"b{name[1:]}"
            drawn[bias] = between(limit, uniform(seed, STREAMS.index(bias), (after,)))
    return Projections(**drawn)


def between(limit: float, unit: Array) -> Array:
    """Uniform numbers from 0 to 1 spread out between −limit and limit."""
    return limit * (2 * unit - 1)
