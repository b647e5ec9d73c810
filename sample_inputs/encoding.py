"""The bytes of the sample files: JSON with vectors in one line, npz, safetensors and models."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def as_json(fields: Mapping[str, Any]) -> bytes:
    """One line a vector, so that a person can read and change it."""
    parts = [f"  {json.dumps(name)}: {_lines(value, '  ')}" for name, value in fields.items()]
    return ("{\n" + ",\n".join(parts) + "\n}\n").encode()


def _lines(value: Any, indent: str) -> str:
    if not (isinstance(value, list) and isinstance(value[0], list)):
        return json.dumps(value, ensure_ascii=False)
    inner = indent + "  "
    rows = [inner + _lines(part, inner) for part in value]
    return "[\n" + ",\n".join(rows) + f"\n{indent}]"


def as_npz(**arrays: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:  # members carry the date 1980-01-01
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return file.getvalue()


def as_model(arrays: Mapping[str, Matrix], config: Mapping[str, Any], words: list[str]) -> bytes:
    """A model in float16, which holds all of its numbers exactly."""
    metadata = {
        "config": json.dumps(config),
        "vocabulary": json.dumps(words, ensure_ascii=False),
    }
    half = {name: array.astype("<f2") for name, array in arrays.items()}
    return as_safetensors(half, "F16", {"__metadata__": metadata})


def as_safetensors_bf16(arrays: Mapping[str, NDArray[np.float32]]) -> bytes:
    return as_safetensors({name: _to_bfloat16(a) for name, a in arrays.items()}, "BF16", {})


def as_safetensors(stored: Mapping[str, NDArray[Any]], dtype: str, first: dict[str, Any]) -> bytes:
    """The format by hand: header length, JSON header beginning with `first`, bytes."""
    header, body = dict(first), b""
    for name, array in stored.items():
        data = array.tobytes()
        end = len(body) + len(data)
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [len(body), end]}
        body += data
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def _to_bfloat16(array: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The upper half of each float32, rounded to nearest, ties to even."""
    bits = array.astype("<f4").view("<u4")
    odd = (bits >> 16) & 1
    halves: NDArray[np.uint16] = ((bits + 0x7FFF + odd) >> 16).astype("<u2")
    return halves
