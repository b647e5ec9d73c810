"""JSON text of a result: one object, each long list with one element a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

ERROR_SCHEMA = "attn.error/1"


def json_text(fields: Mapping[str, Any], encoding: str) -> str:
    """The object as JSON in characters that `encoding` has, ending in a line break.

    Objects in a list stand one a line, so that it can be read, searched and compared. NaN and
    infinity must have been replaced: ValueError otherwise.
    """
    text = _object(fields, ascii_only=False)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:  # also where a token holds half a surrogate pair
        text = _object(fields, ascii_only=True)
    return text + "\n"


def error_fields(message: str, hint: str) -> dict[str, Any]:
    """The object that stands on stdout where a command cannot run."""
    return {"schema": ERROR_SCHEMA, "message": message, "hint": hint}


def _object(fields: Mapping[str, Any], *, ascii_only: bool) -> str:
    lines = [
        f"  {_value(name, ascii_only)}: {_member(value, ascii_only)}"
        for name, value in fields.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}"


def _member(value: Any, ascii_only: bool) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n    " + ",\n    ".join(_value(entry, ascii_only) for entry in value) + "\n  ]"
    return _value(value, ascii_only)


def _value(value: Any, ascii_only: bool) -> str:
    return json.dumps(value, ensure_ascii=ascii_only, allow_nan=False)
