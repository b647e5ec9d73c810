"""ALiBi: a penalty on the scores that grows linearly with the distance, one slope a head."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.positions.declaration import Ingredients, Scheme

Array = NDArray[Any]


def slopes(heads: int) -> tuple[float, ...]:
    """The slope m of every head: 2^(−8/n), 2^(−16/n), … for n heads, n a power of 2.

    Otherwise those of the power of 2 below, then every other one of the power of 2 above.
    Source: Press et al. 2021, "Train Short, Test Long", section 3, and its reference code.

    >>> slopes(4)
    (0.25, 0.0625, 0.015625, 0.00390625)
    """
    below = 2 ** math.floor(math.log2(heads))
    first = [2.0 ** (-8 * (i + 1) / below) for i in range(below)]
    rest = [2.0 ** (-4 * (i + 1) / below) for i in range(0, 2 * below, 2)]
    return tuple((first + rest)[:heads])


@dataclass(frozen=True, slots=True)
class Alibi:
    """−m·|q − k| added to the scaled scores, m the slope of the head."""

    slopes: tuple[float, ...]
    name: str = "ALiBi"

    def __call__(self, b: Array, h: Array, q_pos: Array, k_pos: Array) -> Array:
        penalty: Array = -np.asarray(self.slopes)[h] * abs(q_pos - k_pos)
        return penalty


def _says(given: Ingredients) -> str:
    shown = [f"{slope:.6g}" for slope in slopes(given.heads)]
    return f"slopes {', '.join(shown[:8])}{', …' if len(shown) > 8 else ''} for the heads in turn"


SCHEME = Scheme(
    name="alibi",
    description="−m·|q − k| added to the scaled scores, with the paper's slope m for each head",
    says=_says,
    bias=lambda given: Alibi(slopes(given.heads)),
)
