"""From memory: arrays and tensors of a running program → the same dump that a file gives."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.dump import Dump
from attn_cli.errors import InputError
from attn_cli.recognize.origin import MEMORY

Array = NDArray[Any]


def dump_from(arrays: Any) -> Dump:
    """A dump of a mapping of names to arrays, or of one array of token vectors.

    An array is what numpy takes for one, or a tensor (detached, brought to the CPU; bfloat16 and
    float8 widened exactly to float32). Lists of strings are tokens, a mapping called `settings`
    holds settings, None is left out. Raises InputError for what holds no real numbers.
    """
    named = arrays if isinstance(arrays, Mapping) else {"x": arrays}
    given = {str(name): value for name, value in named.items() if value is not None}
    settings = given.pop("settings", {})
    texts = {name: words for name, value in given.items() if (words := _texts(value)) is not None}
    read = {name: _array(value, name) for name, value in given.items() if name not in texts}
    return Dump(
        source=MEMORY,
        format=MEMORY,
        arrays={name: array for name, (array, _) in read.items()},
        dtypes={name: dtype for name, (_, dtype) in read.items()},
        sha256=_sha256({name: array for name, (array, _) in read.items()}),
        unnamed=not isinstance(arrays, Mapping),
        texts=texts,
        settings=settings,
    )


def _texts(value: Any) -> Any | None:
    """The value as lists of strings, where it is one: a list, a batch of lists, a numpy array."""
    words = value.tolist() if isinstance(value, np.ndarray) and value.dtype.kind == "U" else value
    if not isinstance(words, list | tuple) or not words:
        return None
    if all(isinstance(word, str) for word in words):
        return list(words)
    if not all(isinstance(row, list | tuple) for row in words):
        return None
    flat = [word for row in words for word in row]
    return [list(row) for row in words] if flat and _all_strings(flat) else None


def _all_strings(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _array(value: Any, name: str) -> tuple[Array, str]:
    """The value as a numpy array, native and in C order, and the name of its precision."""
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(
            f"{name} is a masked array: attn does not know what its mask hides",
            hint="give name.filled(…), and a mask beside it",
        )
    try:
        array, dtype = _tensor(value) if hasattr(value, "detach") else _plain(value)
    except (RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"{name} is no array of numbers: {error}") from error
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} has dtype {dtype}: expected real numbers")
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return np.asarray(native, order="C"), dtype


def _tensor(tensor: Any) -> tuple[Array, str]:
    here = tensor.detach().cpu()
    dtype = str(here.dtype).removeprefix("torch.")
    return np.asarray(here.float() if _beyond_numpy(dtype) else here), dtype


def _plain(value: Any) -> tuple[Array, str]:
    array = np.asarray(value)
    dtype = array.dtype.name
    if _beyond_numpy(dtype):
        return array.astype(np.float32), dtype
    if isinstance(value, list | tuple) and array.dtype.kind in "iuf":
        return array.astype(np.float64), "json"
    return array, dtype


def _beyond_numpy(dtype: str) -> bool:
    return dtype == "bfloat16" or dtype.startswith("float8")


def _sha256(arrays: Mapping[str, Array]) -> str:
    digest = hashlib.sha256()
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
