"""JSON → arrays: a bare list of rows, or an object of named lists."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.findings import Finding, note
from attn_cli.errors import InputError
from attn_cli.formats.content import Content
from attn_cli.formats.names import listed, quoted
from attn_cli.formats.nested import TooLarge, as_array, as_texts, describe
from attn_cli.formats.text_file import decode, read_text

_EXPECTED = 'write rows of numbers, [[1, 0], [0, 1]], or {"tokens": […], "vectors": […]}'


def read(path: Path) -> Content:
    """The content of a JSON file: see `parse`."""
    return parse(read_text(path))


def headers(path: Path) -> Content:
    """What `read` gives: numbers that are written out have no header, so they are read."""
    return read(path)


def parse(text: str) -> Content:
    """The arrays of a JSON text, all float64 or bool.

    A bare list becomes the unnamed array "x". In an object, lists of numbers (or of true and
    false) are arrays, a number is one without axes, lists of strings are texts, "settings" is an
    object, and a note names the other keys, which are not read. NaN and ±Infinity may stand for
    numbers; null may not.
    InputError names the line and column where the text is not JSON, and the row and column
    where something else stands than a number.
    """
    try:
        value = _load(text)
        if isinstance(value, list):
            return _bare(value)
        if isinstance(value, dict):
            return _named(value)
    except RecursionError as error:
        raise InputError("is nested too deeply to be read") from error
    raise InputError(f"holds {_describe(value)} where rows of numbers are expected", hint=_EXPECTED)


def parse_bytes(content: bytes) -> Content:
    """The same of bytes that came through a pipe."""
    return parse(decode(content))


def _load(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=unique, parse_int=_integer, parse_float=_decimal)
    except json.JSONDecodeError as error:
        ends = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        raise InputError(
            f"is not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}",
            hint="the text ends too early: is the file cut off?" if ends else "",
        ) from error


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of some pairs; InputError where a key comes twice: which one counts is open."""
    keys: set[str] = set()
    for key, _ in pairs:
        if key in keys:
            raise InputError(f"the key {quoted(key)} occurs twice in one object")
        keys.add(key)
    return dict(pairs)


def _integer(text: str) -> int | TooLarge:
    # int() is slow on very long texts and refuses them above a limit; float() takes any.
    if len(text) < 300:
        return int(text)
    return TooLarge(text) if math.isinf(float(text)) else int(text)


def _decimal(text: str) -> float | TooLarge:
    value = float(text)
    return TooLarge(text) if math.isinf(value) else value


def _bare(rows: list[Any]) -> Content:
    if not rows:
        raise InputError("holds an empty list: there are no tokens", hint=_EXPECTED)
    x = as_array(rows, None)
    return Content("json", {"x": x}, {"x": _dtype(x)}, unnamed=True)


def _named(value: dict[str, Any]) -> Content:
    settings = _settings(value.pop("settings", {}))
    lists = {key: item for key, item in value.items() if isinstance(item, list)}
    texts = {key: words for key, item in lists.items() if (words := as_texts(item)) is not None}
    arrays = {key: as_array(item, key) for key, item in lists.items() if key not in texts}
    if not arrays:
        raise _no_arrays(value, texts)
    arrays |= {key: np.array(float(item)) for key, item in value.items() if _is_number(item)}
    read = {*arrays, *texts}
    others = {key: _describe(item) for key, item in value.items() if key not in read}
    dtypes = {key: _dtype(array) for key, array in arrays.items()}
    return Content(
        "json",
        arrays,
        dtypes,
        texts=texts,
        settings=settings,
        findings=_not_read(list(others)),
        others=others,
    )


def _no_arrays(value: dict[str, Any], texts: Mapping[str, Any]) -> InputError:
    """The error for an object without a list of numbers; rows of text were meant to be numbers."""
    for key, rows in texts.items():
        if isinstance(rows[0], list) and "token" not in key.lower():
            row, word = next((i, row[0]) for i, row in enumerate(rows) if row)
            where = f"row {row}, column 0 of {quoted(key)}"
            return InputError(f"{where} is {describe(word)} where a number is expected")
    found = f"; found {listed(list(value))}" if value else ""
    return InputError(f"holds no lists of numbers{found}", hint=_EXPECTED)


def _not_read(keys: list[str]) -> tuple[Finding, ...]:
    if not keys:
        return ()
    said = f"not read, being no numbers, lists or 'settings': {listed(keys)}"
    return (note("ignored-key", said),)


def _describe(value: Any) -> str:
    return "a number too large for a float64" if isinstance(value, TooLarge) else describe(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _settings(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"'settings' is {describe(value)} where an object is expected")
    large = next((key for key, item in value.items() if _holds_too_large(item)), None)
    if large is not None:
        raise InputError(f"the setting {quoted(large)} holds a number too large for a float64")
    return value


def _holds_too_large(value: Any) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return any(map(_holds_too_large, value))
    return isinstance(value, TooLarge)


def _dtype(array: NDArray[Any]) -> str:
    return "bool" if array.dtype.kind == "b" else "json"
