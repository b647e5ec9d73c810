"""Safetensors → named arrays, from the bytes alone; the whole header is checked first."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.blank import blank
from attn_cli.errors import InputError, UnsupportedError
from attn_cli.formats.content import Content
from attn_cli.formats.metadata import unpack
from attn_cli.formats.names import quoted
from attn_cli.formats.raw import can_map, check_fits, is_possible, mapped, read_exactly
from attn_cli.formats.safetensors_dtypes import BITS, DECODED, decode

LONGEST_HEADER = 100_000_000  # bytes, the limit of the format's own library


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """What a header says of one tensor; `offsets` (begin, end) count from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    offsets: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Header:
    """A checked header: its tensors cover the data exactly, in order of their offsets."""

    tensors: Mapping[str, TensorInfo]
    metadata: Mapping[str, str]


def read(path: Path) -> Content:
    """The tensors of a .safetensors file by name, its texts and settings.

    bfloat16 and float8 are widened exactly to float32; `dtypes` says what the file held.
    UnsupportedError names a tensor whose dtype the format knows and attn does not compute with;
    InputError names the tensor or the bytes that are wrong. A large tensor stays in the file, but
    for those that are widened.
    """
    with path.open("rb") as file:
        header = _computable(_header(file))
        data = file.tell()
        read_ = [info for info in header.tensors.values() if not _stays(info, data)]
        check_fits(sum(map(_memory, read_)))
        arrays = {name: _tensor(file, name, info, data) for name, info in header.tensors.items()}
    return _content(header, arrays)


def headers(path: Path) -> Content:
    """What `read` gives, with blank arrays: no data is read."""
    with path.open("rb") as file:
        header = _computable(_header(file))
    arrays = {
        name: blank(info.shape, DECODED[info.dtype].array_dtype)
        for name, info in header.tensors.items()
    }
    return _content(header, arrays)


def _computable(header: Header) -> Header:
    """The header, where attn computes with all its dtypes."""
    for name, info in header.tensors.items():
        if info.dtype not in DECODED:
            raise UnsupportedError(
                f"tensor {quoted(name)} has dtype {info.dtype}, which attn does not compute with",
                hint=f"convert it to one of {', '.join(DECODED)}",
            )
    return header


def _content(header: Header, arrays: Mapping[str, NDArray[Any]]) -> Content:
    said = unpack(header.metadata)
    return Content(
        "safetensors",
        arrays,
        {name: DECODED[info.dtype].name for name, info in header.tensors.items()},
        texts=said.texts,
        settings=said.settings,
        axes=said.axes,
        strings=header.metadata,
        findings=said.findings,
    )


def read_header(path: Path) -> Mapping[str, TensorInfo]:
    """The tensors that a file describes, checked like `read` but with no data read.

    In order of their offsets. A dtype that attn cannot decode is no error here.
    """
    with path.open("rb") as file:
        return _header(file).tensors


def _memory(info: TensorInfo) -> int:
    return math.prod(info.shape) * DECODED[info.dtype].array_bytes


def _stays(info: TensorInfo, data: int) -> bool:
    """Whether a tensor is left in the file, whose data begin at byte `data`."""
    held = DECODED[info.dtype]
    same = held.array_dtype.itemsize == np.dtype(held.stored).itemsize and info.dtype != "BOOL"
    return same and can_map(np.dtype(held.stored), info.shape, data + info.offsets[0])


def _tensor(file: IO[bytes], name: str, info: TensorInfo, data: int) -> Any:
    begin, end = info.offsets
    if _stays(info, data):
        return mapped(file, np.dtype(DECODED[info.dtype].stored), info.shape, data + begin)
    file.seek(data + begin)
    try:
        return decode(read_exactly(file, end - begin), info.dtype).reshape(info.shape)
    except InputError as error:
        raise InputError(f"tensor {quoted(name)}: {error.message}", error.hint) from error


def _header(file: IO[bytes]) -> Header:
    """The header, with the stream left at the first byte of the data."""
    size = os.fstat(file.fileno()).st_size
    if size < 8:
        raise InputError(f"is {size} bytes long; the length of a header alone takes 8")
    length = int.from_bytes(file.read(8), "little")
    if length > size - 8:
        raise InputError(
            f"its header should take {length:,} bytes, the file has {size:,} in all",
            hint="is the file cut off, or no safetensors file?",
        )
    if length > LONGEST_HEADER:
        raise InputError(f"its header takes {length:,} bytes; at most {LONGEST_HEADER:,} are read")
    entries = _parse(file.read(length))
    metadata = _metadata(entries.pop("__metadata__", {}))
    tensors = {name: _info(name, entry) for name, entry in entries.items()}
    if not tensors:
        raise InputError("holds no tensors")
    return Header(_covering(tensors, size - 8 - length), metadata)


def _parse(content: bytes) -> dict[str, Any]:
    try:
        header = json.loads(content.decode("utf-8"), object_pairs_hook=_unique)
    except UnicodeDecodeError as error:
        raise InputError(f"its header is not UTF-8 text (byte {error.start})") from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"its header is not valid JSON at character {error.pos}: {error.msg}"
        ) from error
    except (ValueError, RecursionError) as error:  # an endless integer, endless nesting
        raise InputError("its header is not valid JSON") from error
    if not isinstance(header, dict):
        raise InputError("its header is JSON but no object")
    return header


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys: set[str] = set()
    for key, _ in pairs:
        if key in keys:
            raise InputError(f"its header holds the name {quoted(key)} twice")
        keys.add(key)
    return dict(pairs)


def _metadata(value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise InputError("the __metadata__ of its header is no object of strings")
    return value


def _info(name: str, entry: Any) -> TensorInfo:
    """One entry of the header, its own claims checked against each other."""
    tensor = f"tensor {quoted(name)}"
    if not isinstance(entry, dict):
        raise InputError(f"{tensor} is not described by an object")
    dtype, shape, offsets = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or not _sizes(shape) or not _sizes(offsets):
        raise InputError(f"{tensor} lacks a dtype, a shape or data_offsets of whole numbers")
    if dtype not in BITS:
        raise InputError(
            f"{tensor} has the unknown dtype {quoted(dtype)}", hint=f"known: {', '.join(BITS)}"
        )
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise InputError(f"{tensor} has data_offsets {quoted(str(offsets))}, not begin and end")
    if not is_possible(shape):
        raise InputError(f"{tensor} has the impossible shape {quoted(str(shape))[1:-1]}")
    begin, end = offsets
    bits = math.prod(shape) * BITS[dtype]
    if bits != (end - begin) * 8:
        raise InputError(
            f"{tensor} of shape {shape} and dtype {dtype} takes {-(-bits // 8):,} bytes, "
            f"its data_offsets span {end - begin:,}"
        )
    return TensorInfo(dtype, tuple(shape), (begin, end))


def _sizes(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)


def _covering(tensors: Mapping[str, TensorInfo], held: int) -> dict[str, TensorInfo]:
    """The tensors by offset; InputError unless each byte of the data belongs to exactly one."""
    ordered = dict(sorted(tensors.items(), key=lambda item: item[1].offsets))
    at, before = 0, ""
    for name, info in ordered.items():
        begin, end = info.offsets
        if end > held:
            raise InputError(
                f"tensor {quoted(name)} should end at byte {end:,} of the data, "
                f"the file holds {held:,} bytes of data",
                hint="is the file cut off?",
            )
        if begin < at:
            raise InputError(f"tensors {quoted(before)} and {quoted(name)} overlap")
        if begin > at:
            raise InputError(f"bytes {at:,} to {begin:,} of its data belong to no tensor")
        at, before = end, name
    if at < held:
        raise InputError(f"holds {held:,} bytes of data, its tensors take only {at:,}")
    return ordered
