"""Numbers for somebody's code: drawn so that no mistake hides, and exact in every precision."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.draws import normal
from attn_cli.core.layer import Projections
from attn_cli.core.rounding import PRECISIONS, round_to

Array = NDArray[Any]

# Default initialisation makes attention nearly uniform, and a missing scale then changes the output
# by a tenth of what it does here.
GAIN = 1.3
BIAS = 0.3


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """The numbers in the code, as the reference takes them.

    `sinks` (H,); `positions` (n, d_model) is the table that is added to x.
    """

    projections: Projections | None = None
    sinks: Array | None = None
    positions: Array | None = None


def exact(array: Array) -> Array:
    """The nearest numbers that float64, float32, bfloat16 and float16 all have.

    >>> exact(np.array([1 / 3, 1e-9])).tolist()
    [0.333984375, 0.0]
    """
    rounded = round_to(array, "bfloat16").astype(np.float64)
    return np.where(np.abs(rounded) < PRECISIONS["float16"].smallest_normal, 0.0, rounded)


def draw_matrices(shapes: Mapping[str, tuple[int, ...]], seed: int) -> dict[str, Array]:
    """Matrices with standard deviation 1.3/√in, biases with 0.3, for fields of Projections."""
    drawn = {}
    for stream, (role, shape) in enumerate(sorted(shapes.items())):
        spread = BIAS if len(shape) == 1 else GAIN / math.sqrt(shape[0])
        drawn[role] = exact(spread * normal(seed, stream, shape))
    return drawn


def draw(seed: int, stream: int, shape: tuple[int, ...], *, spread: float = 1.0) -> Array:
    """Normal numbers of a stream of their own, exact in every precision."""
    return exact(spread * normal(seed, 1000 + stream, shape))
