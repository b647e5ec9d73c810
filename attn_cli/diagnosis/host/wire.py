"""Messages between attn and the process that runs somebody's code: JSON, and arrays as bytes."""

from __future__ import annotations

import json
import math
import struct
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

_LENGTHS = struct.Struct("<QQ")  # bytes of JSON, bytes of arrays
_LARGEST = 4 << 30
_ARRAY = "@array"
DTYPES = ("bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64")


class Broken(Exception):
    """What came through the pipe is no message, or the pipe has ended."""


def send(stream: IO[bytes], message: Any) -> None:
    """Writes one message: JSON values in which arrays may stand, their names no "@array"."""
    arrays: list[NDArray[Any]] = []
    text = json.dumps(_without_arrays(message, arrays)).encode()
    blobs = [np.ascontiguousarray(array).tobytes() for array in arrays]
    stream.write(_LENGTHS.pack(len(text), sum(map(len, blobs))))
    stream.write(text)
    for blob in blobs:
        stream.write(blob)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """The next message; Broken where there is none. Nothing in it is evaluated."""
    text_length, array_length = _LENGTHS.unpack(_read(stream, _LENGTHS.size))
    if text_length > _LARGEST or array_length > _LARGEST:
        raise Broken("a message is too long")
    text, blob = _read(stream, text_length), memoryview(_read(stream, array_length))
    try:
        return _with_arrays(json.loads(text), blob)
    except (ValueError, KeyError, TypeError) as error:
        raise Broken(str(error)) from None


def _read(stream: IO[bytes], length: int) -> bytes:
    parts = []
    while length:
        part = stream.read(length)
        if not part:
            raise Broken("the pipe has ended")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _without_arrays(value: Any, arrays: list[NDArray[Any]]) -> Any:
    if isinstance(value, np.ndarray):
        start = sum(array.nbytes for array in arrays)
        arrays.append(value)
        return {_ARRAY: [value.dtype.name, list(value.shape), start]}
    if isinstance(value, dict):
        return {str(name): _without_arrays(part, arrays) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_arrays(part, arrays) for part in value]
    return value


def _with_arrays(value: Any, blob: memoryview) -> Any:
    if isinstance(value, dict):
        if _ARRAY in value:
            dtype, shape, start = value[_ARRAY]
            return _array(dtype, shape, start, blob)
        return {name: _with_arrays(part, blob) for name, part in value.items()}
    if isinstance(value, list):
        return [_with_arrays(part, blob) for part in value]
    return value


def _array(dtype: str, shape: list[int], start: int, blob: memoryview) -> NDArray[Any]:
    if dtype not in DTYPES:
        raise ValueError(f"an array of {dtype}")
    count = math.prod(shape)
    end = start + count * np.dtype(dtype).itemsize
    return np.frombuffer(blob[start:end], dtype, count).reshape(shape).copy()
