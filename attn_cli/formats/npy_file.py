"""NPY → one array. The header is checked against the file before anything is allocated."""

from __future__ import annotations

import io
import math
import os
import struct
import tokenize
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from attn_cli.core.blank import Blank, blank
from attn_cli.core.findings import note
from attn_cli.errors import InputError
from attn_cli.formats.content import Content
from attn_cli.formats.names import quoted
from attn_cli.formats.raw import as_bool, can_map, is_possible, mapped, native, read_exactly

LONGEST_HEADER = 10_000  # bytes; a header names one dtype and one shape
# What numpy's parser of headers, Python's own with a filter before it, raises.
_BAD_HEADER = (
    ValueError,
    TypeError,
    SyntaxError,
    KeyError,
    RecursionError,
    MemoryError,
    tokenize.TokenError,
)
_KINDS = {
    "b": "bool",
    "i": "integer",
    "u": "integer",
    "f": "float",
    "c": "complex",
    "U": "text",
    "S": "bytes",
    "M": "datetime",
    "m": "timedelta",
    "V": "structured or raw",
}


@dataclass(frozen=True, slots=True)
class Header:
    """What an array claims to be, and how many bytes its numbers take."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def blank(self) -> Blank:
        """An array that is as the header says, without its numbers."""
        return blank(self.shape, self.dtype.newbyteorder("="))


def read(path: Path) -> Content:
    """The unnamed array "x" of an .npy file: float, integer or bool, in C and native order.

    InputError where the dtype is another (object arrays would need pickle and are never loaded),
    and where header and file disagree on the number of bytes. A large array stays in the file.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        header = read_header(file, size)
        if not header.fortran and can_map(header.dtype, header.shape, file.tell()):
            return _content(mapped(file, header.dtype, header.shape, file.tell()))
        file.seek(0)
        return _content(read_array(file, size))


def headers(path: Path) -> Content:
    """What `read` gives, with a blank array: no numbers are read."""
    with path.open("rb") as file:
        header = read_header(file, os.fstat(file.fileno()).st_size)
    return _content(header.blank)


def _content(array: NDArray[Any]) -> Content:
    x, name = plain(array)
    said = note("longdouble", f"{array.dtype.name} numbers are read as float64")
    findings = (said,) if name != array.dtype.name else ()
    return Content("npy", {"x": x}, {"x": name}, unnamed=True, findings=findings)


def read_header(stream: IO[bytes], size: int, *, text: bool = False) -> Header:
    """The header of an array that `size` bytes of a stream hold, checked against these bytes.

    The stream is left at the first number. Arrays of text are let through where `text` allows it.
    """
    header, taken = _header(stream, size)
    _check_dtype(header.dtype, text=text)
    held = size - taken
    if header.bytes != held:
        raise InputError(
            f"the header claims {header.bytes:,} bytes of numbers, the file holds {held:,}",
            hint="is the file cut off?" if header.bytes > held else "",
        )
    return header


def read_array(stream: IO[bytes], size: int, *, text: bool = False) -> NDArray[Any]:
    """The array that `size` bytes of a stream in NPY format hold; arrays of text where allowed."""
    header = read_header(stream, size, text=text)
    content = read_exactly(stream, header.bytes)
    flat = as_bool(content) if header.dtype.kind == "b" else content.view(header.dtype)
    return native(flat.reshape(header.shape, order="F" if header.fortran else "C"))


def plain(array: NDArray[Any]) -> tuple[NDArray[Any], str]:
    """An array that every platform computes with, and its dtype's name: longdouble is narrowed."""
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        with np.errstate(over="ignore", invalid="ignore"):
            array = array.astype(np.float64)
    return array, array.dtype.name


def _header(stream: IO[bytes], size: int) -> tuple[Header, int]:
    """The header and the bytes it takes, magic included."""
    prefix = stream.read(8)
    if prefix[:6] != b"\x93NUMPY":
        raise InputError("does not begin like an .npy file")
    if len(prefix) < 8:
        raise InputError("ends within its header", hint="is the file cut off?")
    version = tuple(prefix[6:])
    if version not in {(1, 0), (2, 0), (3, 0)}:
        raise InputError(f"is of .npy version {'.'.join(map(str, version))}; 1.0 to 3.0 are known")
    width = 2 if version == (1, 0) else 4
    count = stream.read(width)
    length = int.from_bytes(count, "little")
    if len(count) < width or length > size - 8 - width:
        raise InputError(f"its header should take {length:,} bytes, the file has {size:,} in all")
    if length > LONGEST_HEADER:
        raise InputError(f"its header takes {length:,} bytes; at most {LONGEST_HEADER:,} are read")
    return _parse(stream.read(length)), 8 + width + length


def _parse(text: bytes) -> Header:
    # Version 3 differs from 2 in the encoding of field names, which no plain dtype has.
    stream = io.BytesIO(struct.pack("<I", len(text)) + text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy warns of headers that Python 2 wrote
            shape, fortran, dtype = npy.read_array_header_2_0(stream, LONGEST_HEADER)
    except _BAD_HEADER as error:
        raise InputError("its header is damaged") from error
    # An integer may also be written as True; numpy lets that through.
    if not is_possible(shape) or any(type(size) is not int for size in shape):
        raise InputError(f"its header claims the impossible shape {quoted(str(shape))[1:-1]}")
    return Header(dtype, tuple(shape), fortran)


def _check_dtype(dtype: np.dtype[Any], *, text: bool) -> None:
    if dtype.hasobject:
        raise InputError(
            "holds dtype object, which only pickle can load; pickles can run code and are not read",
            hint="save numbers: np.save(path, array.astype(float))",
        )
    allowed = "biufU" if text else "biuf"
    if dtype.kind not in allowed or not dtype.itemsize:
        kind = _KINDS.get(dtype.kind, "another kind of")
        name = dtype.name if dtype.kind in "cMm" else quoted(dtype.str)[1:-1]
        raise InputError(f"holds dtype {name} ({kind} values) where numbers are expected")
