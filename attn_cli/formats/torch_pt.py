"""PyTorch's .pt and .pth → named arrays. Only tensors and plain values are loaded, no pickle."""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.blank import blank
from attn_cli.core.findings import note
from attn_cli.errors import InputError, UnsupportedError
from attn_cli.formats.content import Content
from attn_cli.formats.names import listed, quoted
from attn_cli.formats.nested import DEEPEST, as_array, as_texts, describe
from attn_cli.formats.raw import as_bool, check_fits, is_possible

if TYPE_CHECKING:
    import torch

MOST = 100_000  # values in all: a few bytes of pickle can spell a tree without end
MOST_IN_LISTS = 10_000_000  # and a list; larger arrays are tensors

_INTEGERS = {"uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"}
_PLAIN = {"bool", "float16", "float32", "float64", *_INTEGERS}
_WIDENED = {"bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"}
_GLOBAL = re.compile(r"GLOBAL ([\w.]+)")


def read(path: Path) -> Content:
    """The tensors of a file that torch.save wrote: one tensor ("x"), or a dict of them.

    Dicts, and lists of tensors, are flattened ("layer.0.q"). bfloat16 and float8 are widened
    exactly to float32. Lists of numbers are arrays, a number is one without axes, lists of strings
    are texts; "settings" is a dict; a note names what else the file holds. InputError where it
    needs pickle, is damaged, or holds tensors that are no plain arrays.
    """
    return _read(path, _arrays, device="cpu")


def headers(path: Path) -> Content:
    """What `read` gives, with blank arrays: tensors are loaded on the meta device, without data."""
    return _read(path, _blanks, device="meta")


Take = Callable[[dict[str, "torch.Tensor"]], tuple[dict[str, NDArray[Any]], dict[str, str]]]


def _read(path: Path, take: Take, *, device: str) -> Content:
    """The content of a file whose tensors are loaded on `device` and made arrays by `take`."""
    value = _load(path, device)
    if _is_tensor(value):
        arrays, dtypes = take({"x": value})
        return Content("pt", arrays, dtypes, unnamed=True)
    if not isinstance(value, dict | list | tuple):
        raise InputError("holds neither a tensor nor a dict of tensors")
    settings: dict[str, Any] = {}
    if isinstance(value, dict) and isinstance(value.get("settings"), dict):
        settings = value.pop("settings")
    return _content(_flat(value), settings, take)


def _content(values: dict[str, Any], settings: dict[str, Any], take: Take) -> Content:
    arrays, dtypes = take({name: v for name, v in values.items() if _is_tensor(v)})
    texts: dict[str, Any] = {}
    others: dict[str, str] = {}
    for name, value in values.items():
        plain = _as_lists(value)
        if name in arrays:
            continue
        if isinstance(plain, list) and (words := as_texts(plain)) is not None:
            texts[name] = words
        elif isinstance(plain, list) and _has_numbers(plain):
            arrays[name] = as_array(plain, name)
            dtypes[name] = arrays[name].dtype.name
        elif type(plain) in (int, float):
            arrays[name] = np.array(float(plain))
            dtypes[name] = "float64"
        else:
            others[name] = describe(plain)
    said = note("ignored-key", f"not read, neither tensors nor lists: {listed(list(others))}")
    return Content(
        "pt",
        arrays,
        dtypes,
        texts=texts,
        settings=settings,
        findings=(said,) if others else (),
        others=others,
    )


def _load(path: Path, device: str) -> Any:
    try:
        import torch
    except ImportError as error:
        raise UnsupportedError("reading it needs PyTorch", hint="pip install torch") from error
    try:
        mapped = zipfile.is_zipfile(path)  # what PyTorch wrote before 1.6 is no zip archive
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(path, map_location=device, weights_only=True, mmap=mapped)
    except MemoryError:
        raise
    except Exception as error:  # torch passes on whatever a damaged file makes it stumble over
        raise _refusal(str(error)) from error


def _refusal(text: str) -> InputError:
    """The error for what torch.load said; its own words advise to switch the safety off."""
    if "TorchScript" in text:
        return InputError("is a TorchScript program", hint="save its tensors: module.state_dict()")
    if "weights_only" not in text:
        return InputError(
            "is damaged, or was not written by torch.save", hint="is the file cut off?"
        )
    found = _GLOBAL.search(text)
    needs = (
        f"the Python object {quoted(found[1])}"
        if found
        else "more than plain tensors, or damaged ones"
    )
    return InputError(
        f"holds {needs}, which only pickle can load; pickles can run code and are not read",
        hint='save tensors alone: torch.save({"q": q, "k": k, "v": v}, path)',
    )


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _flat(value: Any) -> dict[str, Any]:
    """Every value in nested dicts and lists of tensors under its dotted name, in their order."""
    found: dict[str, Any] = {}
    waiting = [(str(key), item) for key, item in reversed(_pairs(value))]
    visits = 0
    while waiting:
        visits += 1
        if visits > MOST:
            raise InputError(f"holds more than {MOST:,} values")
        name, item = waiting.pop()
        if _is_branch(item):
            waiting += [(f"{name}.{key}", child) for key, child in reversed(_pairs(item))]
        elif name in found:
            raise InputError(f"holds the name {quoted(name)} twice")
        else:
            found[name] = item
    return found


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items() if isinstance(value, dict) else enumerate(value))


def _is_branch(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(
            _is_tensor(item)
            or isinstance(item, dict)
            or (isinstance(item, list | tuple) and any(map(_is_tensor, item)))
            for item in value
        )
    return isinstance(value, dict)


def _as_lists(value: Any) -> Any:
    """Lists and tuples, as deep as an array may be, as lists throughout; all else as it is."""
    if not isinstance(value, list | tuple):
        return value
    # Level by level and counted: a list may hold itself, or another one twice, and so on down.
    top: list[Any] = list(value)
    level = [top]
    visits = 0
    for _ in range(DEEPEST):
        below = []
        for node in level:
            visits += len(node)
            if visits > MOST_IN_LISTS:
                raise InputError(f"holds lists of more than {MOST_IN_LISTS:,} values")
            for i, item in enumerate(node):
                if isinstance(item, list | tuple):
                    node[i] = list(item)
                    below.append(node[i])
        level = below
    if level:
        raise InputError(f"holds lists that are nested more than {DEEPEST} deep")
    return top


def _has_numbers(value: list[Any]) -> bool:
    """Whether nested lists begin with a number, or are empty."""
    first: Any = value
    while isinstance(first, list) and first:
        first = first[0]
    return isinstance(first, list | int | float)


def _arrays(
    tensors: dict[str, torch.Tensor],
) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The tensors as numpy arrays, and the names of the dtypes that they had."""
    for name, tensor in tensors.items():
        _check(name, tensor)
        if tensor.is_meta:
            raise InputError(f"tensor {quoted(name)} has a shape but no numbers (device meta)")
    # A tensor may be far larger than its storage: strides of 0 repeat one number.
    check_fits(sum(t.numel() * max(t.element_size(), 4) for t in tensors.values()))
    arrays = {name: _array(tensor) for name, tensor in tensors.items()}
    return arrays, {name: _dtype(tensor) for name, tensor in tensors.items()}


def _blanks(
    tensors: dict[str, torch.Tensor],
) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Blank arrays of the tensors' shapes; of their dtypes, or float32 where numpy lacks them."""
    for name, tensor in tensors.items():
        _check(name, tensor)
        if not is_possible(tensor.shape):
            raise InputError(
                f"tensor {quoted(name)} has the impossible shape {tuple(tensor.shape)}"
            )
    dtypes = {name: _dtype(tensor) for name, tensor in tensors.items()}
    arrays: dict[str, NDArray[Any]] = {
        name: blank(tensor.shape, "float32" if dtypes[name] in _WIDENED else dtypes[name])
        for name, tensor in tensors.items()
    }
    return arrays, dtypes


def _check(name: str, tensor: torch.Tensor) -> None:
    dtype = _dtype(tensor)
    if dtype not in _PLAIN | _WIDENED:
        raise InputError(
            f"tensor {quoted(name)} has dtype {dtype} where real numbers are expected",
            hint="convert it to float32",
        )
    layout = str(tensor.layout).removeprefix("torch.")
    if layout != "strided" or tensor.is_nested:
        kind = "nested" if tensor.is_nested else layout
        raise InputError(f"tensor {quoted(name)} is {kind}, not dense", hint="to_dense() it first")


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _array(tensor: torch.Tensor) -> NDArray[Any]:
    """A copy: the tensor itself may be a view of the file, which can change underneath."""
    plain = tensor.detach().resolve_neg()
    if _dtype(tensor) in _WIDENED:
        plain = plain.float()
    array = np.array(plain.numpy(), order="C")
    if array.dtype.kind == "b":
        return as_bool(array.view(np.uint8).reshape(-1)).reshape(array.shape)
    return array
