"""Sinusoidal positions: sines and cosines of geometric wavelengths, added to the token vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.positions.declaration import Scheme

Array = NDArray[Any]

WAVELENGTHS = 10_000.0


def sinusoidal(positions: Array, d_model: int) -> Array:
    """PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i+1) = cos of the same: (n,) → (n, d_model).

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.5. The distance between two
    encodings depends on their offset alone, but does not grow with it everywhere.

    >>> sinusoidal(np.array([1]), 4).round(6).tolist()
    [[0.841471, 0.540302, 0.01, 0.99995]]
    """
    pair = np.arange(d_model) // 2
    angle = np.asarray(positions)[:, None] / WAVELENGTHS ** (2 * pair / d_model)  # (n, d_model)
    return np.where(np.arange(d_model) % 2 == 0, np.sin(angle), np.cos(angle))


SCHEME = Scheme(
    name="sinusoidal",
    description="sines and cosines of wavelengths from 2π to 10000·2π, added to the token vectors",
    says=lambda given: "sines and cosines of wavelengths from 2π to 10000·2π",
    encode=lambda given, positions, d_model: sinusoidal(np.asarray(positions), d_model),
)
