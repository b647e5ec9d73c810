"""Raw bytes into arrays: is there room for them, are they all there, are they what they claim?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.memory import available_bytes, size
from attn_cli.errors import InputError

MAPPED = 1 << 24  # bytes; larger arrays stay in their file and are paged in where they are read
PIECE = 1 << 24  # bytes read at a time, so that a decompressor needs no second copy of the whole
DIMENSIONS = 32  # of an array; numpy itself stops at 64

Bytes = NDArray[np.uint8]


def read_exactly(stream: IO[bytes], count: int) -> Bytes:
    """The next `count` bytes as a writable array; InputError where the stream ends before."""
    check_fits(count)
    content = np.empty(count, np.uint8)
    view = content.data
    done = 0
    while done < count:
        piece = stream.read(min(PIECE, count - done))
        if not piece:
            raise InputError(f"{count:,} bytes of numbers are expected, {done:,} came")
        view[done : done + len(piece)] = piece
        done += len(piece)
    return content


def can_map(dtype: np.dtype[Any], shape: Sequence[int], offset: int) -> bool:
    """Whether numbers in C order from `offset` on are worth mapping, and can be as they lie."""
    return (
        math.prod(shape) * dtype.itemsize >= MAPPED
        and dtype.kind in "iuf"
        and dtype.itemsize <= 8
        and dtype.isnative
        and offset % dtype.itemsize == 0
    )


def mapped(
    file: IO[bytes], dtype: np.dtype[Any], shape: Sequence[int], offset: int
) -> NDArray[Any]:
    """The array at `offset` of a file, read-only and not in memory: the system pages it in.

    It must not be cut short while it is used; what replaces it under its name does not disturb it.
    """
    return np.memmap(file, dtype, "r", offset, tuple(shape)).view(np.ndarray)


def as_bool(content: Bytes) -> NDArray[np.bool_]:
    """Bytes 0 and 1 as bool; InputError for any other, which numpy would take and then misuse."""
    if content.size and content.max() > 1:
        where = int(np.argmax(content > 1))
        raise InputError(f"a bool array holds the byte {content[where]} at {where}, not 0 or 1")
    return content.view(np.bool_)


def is_possible(shape: Sequence[int]) -> bool:
    """Whether numpy can make an array of this shape, zero-sized axes included."""
    filled = math.prod(axis for axis in shape[:DIMENSIONS] if axis)
    return len(shape) <= DIMENSIONS and min(shape, default=0) >= 0 and filled < 1 << 60


def native(array: NDArray[Any]) -> NDArray[Any]:
    """`array` in C order and the machine's byte order, copied only where it must be."""
    return np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")


def check_fits(count: int) -> None:
    """InputError where `count` bytes are more than the memory that is free."""
    free = available_bytes()
    if free is not None and count > free:
        raise InputError(
            f"its arrays take {size(count)} of memory, and {size(free)} are free",
            hint="save only the arrays that are looked at",
        )
