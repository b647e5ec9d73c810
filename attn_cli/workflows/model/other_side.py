"""The other side of --diff: another checkpoint, or the same one held in another way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from attn_cli.core.registry import unknown_name
from attn_cli.errors import InputError
from attn_cli.models.hf.options import BACKENDS, LoadOptions

KEYS = ("backend", "dtype", "device", "seed")
GRAMMAR = "PATH, or backend=eager, dtype=bfloat16, device=cuda, seed=1, joined by commas"


def other_side(text: str, left: LoadOptions) -> LoadOptions:
    """`PATH[,KEY=VALUE…]` or `KEY=VALUE[,KEY=VALUE…]`: the left side's options, changed.

    What is there under that name is a path, whatever it looks like. InputError for what cannot be
    read, and for a side that is the left side.

    >>> other_side("dtype=bfloat16", LoadOptions(source="a")).dtype
    'bfloat16'
    """
    if _exists(text):
        return replace(left, source=text)
    parts = [part.strip() for part in text.split(",")]
    changed: dict[str, Any] = {}
    if parts[0] and "=" not in parts[0]:
        changed["source"] = parts.pop(0)
    for part in parts:
        key, value = _pair(part, text)
        if key in changed:
            raise InputError(f"--diff says {key} twice", hint="say it once")
        changed[key] = value
    right = replace(left, **changed)
    if right == left:
        raise InputError(
            f"--diff {text} is the model itself: there is nothing to compare",
            hint=f"expected {GRAMMAR}",
        )
    return right


def _pair(part: str, text: str) -> tuple[str, Any]:
    key, equals, value = (word.strip() for word in part.partition("="))
    if not (equals and value):
        raise InputError(f"--diff cannot read {text!r}", hint=f"expected {GRAMMAR}")
    if key not in KEYS:
        raise unknown_name("side of --diff", key, KEYS)
    if key == "backend" and value not in BACKENDS:
        raise unknown_name("backend", value, BACKENDS)
    if key != "seed":
        return key, value
    if not (value.isascii() and value.isdigit() and len(value) <= 9):
        raise InputError(f"--diff has seed={value}: expected a whole number")
    return key, int(value)


def _exists(text: str) -> bool:
    try:
        return bool(text) and Path(text).exists()
    except (OSError, ValueError):  # too long, or a zero byte
        return False
