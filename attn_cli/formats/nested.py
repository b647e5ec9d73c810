"""Nested lists → an array or texts, or an error that names the row and the column."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.errors import InputError
from attn_cli.formats.names import quoted

DEEPEST = 32  # levels of nesting; numpy itself stops at 64


@dataclass(frozen=True, slots=True)
class TooLarge:
    """A number as it was written, beyond the largest float64."""

    text: str


def as_texts(value: list[Any]) -> list[Any] | None:
    """`value` where it is a list of strings, or a list of such lists (a batch); else None."""
    if value and all(isinstance(word, str) for word in value):
        return value
    if not any(value) or not all(isinstance(row, list) for row in value):
        return None
    return value if all(isinstance(word, str) for row in value for word in row) else None


def as_array(value: list[Any], name: str | None) -> NDArray[Any]:
    """The float64 or bool array that nested lists of numbers, or of true and false, spell out.

    InputError names the place where a row is shorter or longer than the first one, and where
    something else stands than a number; `name` is the array's, None where it has none.
    """
    shape, leaves = _flatten(value, name)
    kinds = set(map(type, leaves))
    if kinds == {bool}:
        return np.array(leaves, np.bool_).reshape(shape)
    if kinds <= {int, float}:
        try:
            return np.array(leaves, np.float64).reshape(shape)
        except OverflowError:
            leaves = [_too_large(leaf) for leaf in leaves]
    raise _wrong_leaf(leaves, shape, name)


def describe(value: object) -> str:
    """What a value of a JSON text is, in the words of the format.

    >>> describe(None), describe(True), describe("a"), describe([1])
    ('null', 'true', "the text 'a'", 'a list')
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f"the text {quoted(value)}"
    if isinstance(value, int | float):
        return f"the number {_short(str(value))}"
    return "a list" if isinstance(value, list) else "an object"


def _flatten(value: list[Any], name: str | None) -> tuple[tuple[int, ...], list[Any]]:
    """The shape that the first elements have, and all leaves; level by level, never recursive."""
    depth = _depth(value)
    shape: tuple[int, ...] = ()
    nodes: list[Any] = [value]
    for _ in range(depth):
        width = len(nodes[0])
        for i, node in enumerate(nodes):
            if type(node) is not list or len(node) != width:
                raise _uneven(node, width, _index(i, shape), depth, name)
        shape += (width,)
        nodes = [child for node in nodes for child in node]
        if not nodes:
            break
    return shape, nodes


def _depth(value: Any) -> int:
    depth = 0
    while type(value) is list:
        depth += 1
        if depth > DEEPEST:
            raise InputError(f"lists are nested more than {DEEPEST} deep")
        value = value[0] if value else None
    return depth


def _uneven(
    node: Any, width: int, index: tuple[int, ...], depth: int, name: str | None
) -> InputError:
    part = {1: "number", 2: "row"}.get(depth - len(index), "item")
    where = _place(index, depth) + _of(name)
    if type(node) is not list:
        came = "too large a number" if isinstance(node, TooLarge) else describe(node)
        return InputError(f"{where} is {came} where a list of {_count(width, part)} is expected")
    first = _place((0,) * len(index), depth)
    return InputError(f"{where} has {_count(len(node), part)}, {first} has {width}")


def _wrong_leaf(leaves: list[Any], shape: tuple[int, ...], name: str | None) -> InputError:
    """The error for the first leaf that is not of the kind which most of them are."""
    kinds = Counter(map(type, leaves))
    expected, good = "a number", {int, float}
    if 2 * kinds[bool] > len(leaves):
        expected, good = "true or false", {bool}
    elif 2 * kinds[str] > len(leaves) and name is not None:
        expected, good = "text", {str}
    i, leaf = next((i, leaf) for i, leaf in enumerate(leaves) if type(leaf) not in good)
    where = _place(_index(i, shape), len(shape)) + _of(name)
    if isinstance(leaf, TooLarge):
        return InputError(f"{where} is too large for a float64: {_short(leaf.text)}")
    return InputError(f"{where} is {describe(leaf)} where {expected} is expected")


def _too_large(leaf: int | float) -> int | float | TooLarge:
    try:
        float(leaf)
    except OverflowError:
        return TooLarge("an integer beyond 1.8e308")
    return leaf


def _count(number: int, part: str) -> str:
    return f"{number} {part}" if number == 1 else f"{number} {part}s"


def _short(text: str) -> str:
    digits = sum(c.isdigit() for c in text)
    return text if len(text) <= 24 else f"{text[:12]}… ({digits} digits)"


def _index(i: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(n) for n in np.unravel_index(i, shape)) if shape else ()


def _place(index: tuple[int, ...], depth: int) -> str:
    """The words for an index into lists nested `depth` deep.

    >>> _place((2,), 2), _place((0, 1), 2), _place((0, 1, 2), 3), _place((3,), 1)
    ('row 2', 'row 0, column 1', 'item 0, row 1, column 2', 'position 3')
    """
    if depth == 1:
        return f"position {index[0]}" if index else "the list"
    items = index[: depth - 2]
    words = [f"item {items[0]}" if len(items) == 1 else f"item {items}"] if items else []
    words += [f"{axis} {i}" for axis, i in zip(("row", "column"), index[depth - 2 :], strict=False)]
    return ", ".join(words)


def _of(name: str | None) -> str:
    return f" of {quoted(name)}" if name is not None else ""
