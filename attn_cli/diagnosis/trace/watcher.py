"""Watcher: keeps what the user's expressions gave: layouts, and values up to a limit."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import FunctionType, MethodType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.diagnosis.trace.instrument import Node

Array = NDArray[Any]

MOST_BYTES = 64 << 20  # of values
MOST_RUNS = 4096  # values of one expression that are kept
MOST_LISTED = 100_000  # numbers in nested lists that are read
MOST_PARTS = 16  # arrays of one tuple


@dataclass(slots=True)
class _Seen:
    """What one expression gave: how often, how it lay the first and the last time, its values."""

    order: int
    count: int = 0
    parts: int = 1
    first: dict[str, Any] = field(default_factory=dict)
    last: dict[str, Any] = field(default_factory=dict)
    values: list[Array] = field(default_factory=list)
    before: dict[str, Any] | None = None
    copied: bool | None = None


class Watcher:
    """Sees values go by. Nothing of it reaches the code: what fails here is only counted."""

    def __init__(self) -> None:
        self.nodes: list[tuple[str, Node]] = []
        self.sources: dict[str, list[str]] = {}
        self.seen: dict[int, _Seen] = {}
        self.names: dict[int, str] = {}
        self.own: set[int] = set()
        self.waiting: dict[int, tuple[dict[str, Any], int]] = {}
        self.bytes = self.failed = self.left_out = self.order = 0
        self.busy = False

    @property
    def count(self) -> int:
        """The number of the next expression."""
        return len(self.nodes)

    def know(self, file: str, lines: list[str], nodes: Sequence[Node]) -> None:
        """A file's expressions, in the order of their numbers."""
        self.sources[file] = lines
        self.nodes += [(file, node) for node in nodes]

    # What the instrumented code calls.

    def saw(self, number: int, value: Any) -> Any:
        """A value that expression `number` gave; gives it back."""
        if not self.busy:
            self.busy = True
            try:
                self._see(number, value)
            except Exception:  # a tensor of a kind that cannot be looked at
                self.failed += 1
            finally:
                self.busy = False
        return value

    def before(self, number: int, value: Any) -> Any:
        """What an operation that lays numbers out anew is about to be given; gives it back."""
        if not self.busy and _is_array(value):
            self.busy = True
            try:
                self.waiting[number] = (layout(value), _memory(value))
            except Exception:
                self.failed += 1
            finally:
                self.busy = False
        return value

    def named(self, number: int, function: Any) -> Any:
        """What expression `number` calls; gives it back."""
        if number not in self.names:
            self.names[number] = self._name(number, function)
        return function

    def _name(self, number: int, function: Any) -> str:
        torch = sys.modules.get("torch")
        target = function
        name = self.nodes[number][1].name
        if torch is not None and isinstance(function, torch.nn.Module):
            target, name = type(function).forward, type(function).__name__
        if isinstance(target, MethodType):
            target = target.__func__
        if isinstance(target, FunctionType) and target.__code__.co_filename in self.sources:
            self.own.add(number)
        return name

    # Keeping.

    def _see(self, number: int, value: Any) -> None:
        was = self.waiting.pop(number, None)
        arrays = list(_arrays(value))
        store = self.nodes[number][1].store
        if not arrays or (store and isinstance(value, float)):
            return
        seen = self.seen.get(number)
        if seen is None:
            self.order += 1
            seen = self.seen[number] = _Seen(self.order, first=layout(arrays[0]))
        seen.count += 1
        seen.parts, seen.last = len(arrays), layout(arrays[-1])
        if was is not None:
            seen.before, seen.copied = was[0], was[1] != _memory(arrays[0])
        if store:
            self.bytes -= sum(kept.nbytes for kept in seen.values)
            seen.values.clear()  # all that was written before is in it
        for array in arrays:
            self._keep(seen, array)

    def _keep(self, seen: _Seen, array: Any) -> None:
        if len(seen.values) >= MOST_RUNS or self.bytes > MOST_BYTES:
            self.left_out += 1
            return
        values = _values(array)
        if values is not None:
            self.bytes += values.nbytes
            seen.values.append(values)

    def told(self, file: str = "", raising: int | None = None) -> dict[str, Any]:
        """All of it as JSON values and arrays, in the order in which expressions were done.

        `raising` is the line of `file` that raised; its text is told.
        """
        ordered = sorted(self.seen.items(), key=lambda item: item[1].order)
        operations = [self._told(number, seen) for number, seen in ordered]
        for number, (was, _) in self.waiting.items():
            operations.append({**self._place(number), "before": was, "raised": True})
        return {
            "operations": operations,
            "files": sorted(self.sources),
            "raising": self._text(file, raising),
            "failed": self.failed,
            "left_out": self.left_out,
        }

    def _told(self, number: int, seen: _Seen) -> dict[str, Any]:
        same = len({(v.shape, v.dtype.name) for v in seen.values}) == 1
        values: Any = [np.stack(seen.values)] if same else seen.values
        return {
            **self._place(number),
            "count": seen.count,
            "parts": seen.parts,
            "first": seen.first,
            "last": seen.last,
            "before": seen.before,
            "copied": seen.copied,
            "stacked": same,
            "values": values,
            "raised": False,
        }

    def _place(self, number: int) -> dict[str, Any]:
        file, node = self.nodes[number]
        return {
            "file": file,
            "line": node.line,
            "text": self._text(file, node.line),
            "source": node.source,
            "name": self.names.get(number, node.name),
            "own": number in self.own,
            "outer": node.outer,
            "store": node.store,
        }

    def _text(self, file: str, line: int | None) -> str:
        lines = self.sources.get(file, [])
        return lines[line - 1].strip() if line is not None and line <= len(lines) else ""


def layout(array: Any) -> dict[str, Any]:
    """Shape, strides in elements, contiguity and dtype; lists and numbers have no strides."""
    if isinstance(array, np.ndarray):
        strides = [s // max(1, array.itemsize) for s in array.strides]
        dtype, contiguous = array.dtype.name, bool(array.flags.c_contiguous)
    elif isinstance(array, list | float | np.generic):
        listed = np.asarray(array)
        strides, contiguous, dtype = None, None, "list" if isinstance(array, list) else "number"
        return {
            "shape": [*listed.shape],
            "strides": strides,
            "contiguous": contiguous,
            "dtype": dtype,
        }
    else:
        strides, contiguous = list(array.stride()), bool(array.is_contiguous())
        dtype = str(array.dtype).removeprefix("torch.")
    return {"shape": [*array.shape], "strides": strides, "contiguous": contiguous, "dtype": dtype}


def _is_array(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return isinstance(value, np.ndarray) or (torch is not None and isinstance(value, torch.Tensor))


def _arrays(value: Any) -> Iterator[Any]:
    """The array, those of a tuple or list, nested lists of numbers, or a real number."""
    if _is_array(value) or isinstance(value, float | np.floating):
        yield value
    elif isinstance(value, tuple | list) and value:
        if all(map(_is_array, value)):
            yield from value[:MOST_PARTS]
        elif isinstance(value, list) and _is_listed(value):
            yield value
        elif isinstance(value, tuple) and len(value) <= MOST_PARTS:
            yield from (part for part in value if _is_array(part))


def _is_listed(value: list[Any]) -> bool:
    """Whether it is a list of real numbers, or of such lists, all of one length."""
    if isinstance(value[0], float | np.floating):
        return all(isinstance(part, float | int | np.floating) for part in value)
    if not isinstance(value[0], list) or not value[0] or len(value) * len(value[0]) > MOST_LISTED:
        return False
    length = len(value[0])
    return all(isinstance(p, list) and len(p) == length and _is_listed(p) for p in value)


def _memory(array: Any) -> int:
    """Where its numbers lie: equal for an array and its views."""
    if isinstance(array, np.ndarray):
        while isinstance(array.base, np.ndarray):
            array = array.base
        return int(array.__array_interface__["data"][0])
    return int(array.untyped_storage().data_ptr())


def _values(array: Any) -> Array | None:
    """A copy of the numbers; None where they are no real numbers."""
    if isinstance(array, list | float | np.generic):
        return np.asarray(array, np.float64)
    if isinstance(array, np.ndarray):
        return np.array(array, copy=True, subok=False) if array.dtype.kind in "biuf" else None
    whole = array.detach().cpu()
    if whole.is_complex():
        return None
    if str(whole.dtype) in ("torch.bfloat16",):
        whole = whole.float()
    copied: Array = whole.numpy().copy()
    return copied
