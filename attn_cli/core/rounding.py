"""Precisions by name: rounding float64 or float32 arrays to them, limits and ulps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.errors import InputError

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Precision:
    """A binary floating-point format: `bits` of significand (the hidden one included), limits."""

    name: str
    bits: int
    largest: float
    smallest_normal: float

    @property
    def eps(self) -> float:
        """The distance from 1 to the next larger number."""
        return 2.0 ** (1 - self.bits)

    @property
    def smallest(self) -> float:
        """The smallest positive (subnormal) number."""
        return self.smallest_normal * self.eps

    def ulp(self, value: Array) -> Array:
        """The spacing of this precision's numbers at |value|."""
        size = np.maximum(np.abs(np.asarray(value, np.float64)), self.smallest_normal)
        spacing: Array = np.ldexp(1.0, np.frexp(size)[1] - self.bits)
        return spacing


PRECISIONS = {
    "float64": Precision("float64", 53, float(np.finfo(np.float64).max), 2.0**-1022),
    "float32": Precision("float32", 24, float(np.finfo(np.float32).max), 2.0**-126),
    "float16": Precision("float16", 11, 65504.0, 2.0**-14),
    "bfloat16": Precision("bfloat16", 8, (2 - 2.0**-7) * 2.0**127, 2.0**-126),
    "tf32": Precision("tf32", 11, float(np.finfo(np.float32).max), 2.0**-126),
    "float8_e4m3fn": Precision("float8_e4m3fn", 4, 448.0, 2.0**-6),
    "float8_e5m2": Precision("float8_e5m2", 3, 57344.0, 2.0**-14),
}


# Precisions that are float32 with a shorter significand, and by how many bits. In tf32 tensor cores
# take the factors of a product; sums and everything else are float32.
SHORTENED = {"bfloat16": 16, "tf32": 13}


def precision(name: str) -> Precision:
    """The precision called `name`; InputError lists the known ones."""
    if name not in PRECISIONS:
        raise InputError(f"there is no precision {name!r}", hint=f"known: {', '.join(PRECISIONS)}")
    return PRECISIONS[name]


def round_to(array: Array, name: str) -> Array:
    """`array` rounded to nearest even; bfloat16 and tf32 values come back in a float32
    array.

    What is beyond the largest number becomes ±inf; NaN stays NaN. Not a copy where nothing changes.
    """
    with np.errstate(over="ignore"):
        if name in SHORTENED:
            return _shortened(np.asarray(array, np.float32), SHORTENED[name])
        return np.asarray(array).astype(name, copy=False)


def accumulator(name: str) -> type[np.float32 | np.float64]:
    """The precision in which sums are kept: float64 for float64, else float32."""
    return np.float64 if name == "float64" else np.float32


def _shortened(array: NDArray[np.float32], dropped: int) -> NDArray[np.float32]:
    """float32 without its last `dropped` bits, to nearest even."""
    bits = array.view(np.uint32)
    half = np.uint32((1 << (dropped - 1)) - 1)
    nearest_even = bits + half + ((bits >> np.uint32(dropped)) & np.uint32(1))
    kept = np.where(np.isnan(array), bits | np.uint32(0x400000), nearest_even)
    rounded = kept & np.uint32(0xFFFFFFFF << dropped & 0xFFFFFFFF)
    return rounded.view(np.float32)
