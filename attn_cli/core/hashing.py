"""splitmix64 as a hash: words of 64 bits that are the same on every machine and numpy version."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

STEP = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / the golden ratio, splitmix64's increment


def mix(word: Words) -> Words:
    """The output function of splitmix64 (Steele, Lea and Flood, 2014): it scatters every bit."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def word_of(number: int) -> Words:
    """A whole number from 0 to 2^64 − 1 as an array of one word."""
    return np.array([number], dtype=np.uint64)


def draw(state: Words, index: NDArray[Any]) -> Words:
    """The words number `index` (from 1) of the splitmix64 stream that starts at `state`."""
    return mix(state + index.astype(np.uint64) * STEP)
