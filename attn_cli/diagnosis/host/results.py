"""What somebody's code returned, as JSON values and arrays, and the cache among it."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np

_LARGEST = 20_000_000  # numbers of one array: the questions have some thousand
_MOST = 200  # parts of a container that are looked at


def tree(value: Any, depth: int = 0) -> dict[str, Any]:
    """The value: {"t": "array" | "tuple" | "dict" | "none" | "other", …}; arrays keep their dtype.

    Numbers in nested lists become an array where their rows are of equal length. bfloat16 comes
    as float32, and says so.
    """
    if value is None:
        return {"t": "none"}
    if (array := _array(value)) is not None:
        return array
    if isinstance(value, list) and (listed := _from_lists(value)) is not None:
        return {"t": "array", "dtype": "list", "array": listed}
    if depth < 4:
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return _named(dict(zip(value._fields, value, strict=True)), depth)
        if isinstance(value, list | tuple):
            return {"t": "tuple", "items": [tree(v, depth + 1) for v in value[:_MOST]]}
        if (fields := fields_of(value)) is not None:
            return _named(fields, depth)
    return {"t": "other", "type": type(value).__name__}


def fields_of(value: Any) -> dict[str, Any] | None:
    """The named parts of a dict, a dataclass or a plain object; None for anything else."""
    if isinstance(value, dict):
        return {str(name): part for name, part in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    fields = getattr(value, "__dict__", None)
    return None if not fields or isinstance(value, type) else dict(fields)


def _named(fields: dict[str, Any], depth: int) -> dict[str, Any]:
    kept = list(fields.items())[:_MOST]
    return {"t": "dict", "items": [[name, tree(part, depth + 1)] for name, part in kept]}


def pick(value: Any, where: int | str | None) -> Any:
    """One part of what was returned: by its place, by its name, or (None) all of it."""
    if where is None:
        return value
    if isinstance(where, str):
        fields = fields_of(value) or {}
        return fields[where] if where in fields else getattr(value, where)
    return value[where]


def _array(value: Any) -> dict[str, Any] | None:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        if (odd := _odd(value)) is not None:
            return {"t": "other", "type": f"tensor {odd}"}
        whole = value.detach().cpu()
        if whole.is_complex():
            return {"t": "other", "type": f"tensor of {dtype}"}
        if dtype == "bfloat16":
            whole = whole.float()
        return {"t": "array", "dtype": dtype, "array": whole.numpy().copy()}
    if isinstance(value, np.ndarray | np.generic | float | int) and not isinstance(value, bool):
        array = np.asarray(value)
        if array.size > _LARGEST:
            return {"t": "other", "type": f"array of {array.size} numbers"}
        if array.dtype.kind not in "biuf":
            return {"t": "other", "type": f"array of {array.dtype}"}
        return {"t": "array", "dtype": array.dtype.name, "array": array.copy()}
    return None


def _odd(tensor: Any) -> str | None:
    """Why a tensor's numbers cannot be taken, None where they can."""
    if tensor.numel() > _LARGEST:
        return f"of {tensor.numel()} numbers"
    if tensor.is_sparse or str(tensor.layout) != "torch.strided":
        return f"that is sparse ({str(tensor.layout).removeprefix('torch.')})"
    if tensor.is_quantized:
        return "that is quantized"
    return "without numbers (device meta)" if tensor.is_meta else None


def _from_lists(value: list[Any]) -> np.ndarray[Any, Any] | None:
    """Nested lists of numbers, or a list of vectors of one length, as an array."""
    if not value or not all(_is_row(part) for part in value):
        return None
    try:
        array = np.asarray([_plain_row(part) for part in value])
    except (ValueError, TypeError):
        return None
    return array.astype(np.float64) if array.dtype.kind in "biuf" and array.size else None


def _is_row(part: Any) -> bool:
    """A number, a list of such, or a one-dimensional array or tensor."""
    if isinstance(part, list):
        return all(_is_row(inner) for inner in part)
    return isinstance(part, int | float | np.generic) or getattr(part, "ndim", None) in (0, 1)


def _plain_row(part: Any) -> Any:
    if isinstance(part, list):
        return [_plain_row(inner) for inner in part]
    return part.tolist() if hasattr(part, "tolist") else part
