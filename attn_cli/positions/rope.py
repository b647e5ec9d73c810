"""RoPE: q and k turned by angles that grow with their positions, so that scores see the offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attn_cli.errors import MisfitError
from attn_cli.positions.declaration import ROPE_BASE, Ingredients, Scheme

Array = NDArray[Any]
Pairing = Literal["half", "interleaved"]


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions (Su et al. 2021, "RoFormer").

    Feature pair i of d turns by p · base^(−2i/d). `half` pairs feature i with i + d/2 (GPT-NeoX and
    Llama), `interleaved` 2i with 2i + 1 (the paper and GPT-J): the same turn of other features.
    """

    pairing: Pairing = "half"
    base: float = ROPE_BASE

    def check_width(self, d_k: int) -> None:
        """Raises InputError for a width that does not split into pairs."""
        if d_k % 2:
            raise MisfitError(
                f"RoPE turns pairs of features: d_k is {d_k}, expected an even number"
            )

    def angles(self, positions: Array, d_k: int) -> Array:
        """The angle in radians of every pair at every position: (n,) → (n, d_k / 2)."""
        frequency = self.base ** (-2 * np.arange(d_k // 2) / d_k)
        angles: Array = np.asarray(positions)[:, None] * frequency
        return angles

    def rotate(self, array: Array, positions: Array) -> Array:
        """q or k (..., n, d_k) with every feature pair turned by its angle at its position."""
        angle = self.angles(positions, array.shape[-1])
        cos, sin = np.cos(angle).astype(array.dtype), np.sin(angle).astype(array.dtype)
        turned = np.empty_like(array)
        first, second = self.pair(array)
        out_first, out_second = self.pair(turned)
        out_first[...] = first * cos - second * sin
        out_second[...] = first * sin + second * cos
        return turned

    def pair(self, array: Array) -> tuple[Array, Array]:
        """Views of the first and of the second feature of every pair, (..., d_k / 2) each."""
        if self.pairing == "interleaved":
            return array[..., 0::2], array[..., 1::2]
        middle = array.shape[-1] // 2
        return array[..., :middle], array[..., middle:]


def _rotate(given: Ingredients) -> Rope:
    return Rope("interleaved" if given.variant == "interleaved" else "half", given.rope_base)


def _says(given: Ingredients) -> str:
    rope = _rotate(given)
    pairs = "i and i + d_k/2" if rope.pairing == "half" else "2i and 2i + 1"
    return f"features {pairs} are turned as a pair, base {rope.base:g}"


SCHEME = Scheme(
    name="rope",
    description="q and k turned by angles that grow with their positions; rope:half (the default) "
    "pairs features i and i + d_k/2, rope:interleaved 2i and 2i + 1",
    says=_says,
    rotate=_rotate,
    variants=("half", "interleaved"),
    settings=("rope_base",),
)
