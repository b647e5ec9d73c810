"""The dtypes of the safetensors format, and their bytes as numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.formats.raw import Bytes, as_bool, native


@dataclass(frozen=True, slots=True)
class Decoded:
    """A dtype that attn reads: its usual name, how its bytes are stored, one element's memory."""

    name: str
    stored: str
    array_bytes: int

    @property
    def array_dtype(self) -> np.dtype[Any]:
        """What the array has that it is read into: what numpy lacks is widened to float32."""
        stored = np.dtype(self.stored).newbyteorder("=")
        return stored if stored.itemsize == self.array_bytes else np.dtype(np.float32)


DECODED = {
    "BOOL": Decoded("bool", "|b1", 1),
    "U8": Decoded("uint8", "|u1", 1),
    "I8": Decoded("int8", "|i1", 1),
    "U16": Decoded("uint16", "<u2", 2),
    "I16": Decoded("int16", "<i2", 2),
    "U32": Decoded("uint32", "<u4", 4),
    "I32": Decoded("int32", "<i4", 4),
    "U64": Decoded("uint64", "<u8", 8),
    "I64": Decoded("int64", "<i8", 8),
    "F8_E4M3": Decoded("float8_e4m3fn", "|u1", 4),
    "F8_E5M2": Decoded("float8_e5m2", "|u1", 4),
    "F16": Decoded("float16", "<f2", 2),
    "BF16": Decoded("bfloat16", "<u2", 4),
    "F32": Decoded("float32", "<f4", 4),
    "F64": Decoded("float64", "<f8", 8),
}

# Bits an element; the last ones belong to the format, but to no array that attn computes with.
BITS = {name: 8 * np.dtype(dtype.stored).itemsize for name, dtype in DECODED.items()} | {
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "C64": 64,
}


def decode(content: Bytes, dtype: str) -> NDArray[Any]:
    """The flat array that `content` holds; bfloat16 and float8 as the same numbers in float32."""
    if dtype == "BOOL":
        return as_bool(content)
    stored = native(content.view(DECODED[dtype].stored))
    if dtype == "BF16":
        return _bfloat16(stored)
    if dtype == "F8_E5M2":
        return _float8_e5m2(stored)
    if dtype == "F8_E4M3":
        return np.asarray(_E4M3[stored])
    return stored


def _bfloat16(stored: NDArray[np.uint16]) -> NDArray[np.float32]:
    """bfloat16 is the upper half of a float32."""
    return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _float8_e5m2(stored: NDArray[np.uint8]) -> NDArray[np.float32]:
    """float8_e5m2 is the upper half of a float16."""
    halves = (stored.astype(np.uint16) << np.uint16(8)).view(np.float16)
    with np.errstate(invalid="ignore"):  # a signalling NaN may be among them; it stays a NaN
        return halves.astype(np.float32)


def _float8_e4m3_table() -> NDArray[np.float32]:
    """The numbers of all 256 bytes: 4 bits of exponent (bias 7), 3 of fraction.

    There is no infinity; only S.1111.111 is NaN (Micikevicius et al. 2022, FP8 formats for deep
    learning, table 1).
    """
    byte = np.arange(256)
    exponent, fraction = (byte >> 3) & 15, byte & 7
    normal = np.ldexp(1 + fraction / 8, exponent - 7)
    size = np.where(exponent == 0, np.ldexp(fraction / 8, -6), normal)
    size[byte & 127 == 127] = np.nan
    return np.where(byte < 128, size, -size).astype(np.float32)


_E4M3 = _float8_e4m3_table()
