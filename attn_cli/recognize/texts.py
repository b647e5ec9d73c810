"""Texts: the tokens of a file, as words or as numbers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from numpy.typing import NDArray

from attn_cli.core.dump import Dump
from attn_cli.core.names import TEXT_WORDS, recognise

Array = NDArray[Any]


def find_tokens(dump: Dump, role: str, used: Collection[str]) -> Any:
    """`tokens` or `context_tokens`: one list, or one a batch item; None where there is none.

    An array of numbers that is not `used` for something else serves as well as words.
    """
    found = recognise([*dump.texts, *token_arrays(dump, used)], TEXT_WORDS)
    if role not in found:
        return None
    words = dump.texts.get(found[role])
    return _as_words(dump.arrays[found[role]]) if words is None else words


def token_arrays(dump: Dump, used: Collection[str]) -> list[str]:
    """The unused arrays that are called like tokens: ids in place of words."""
    free = [name for name in dump.arrays if name not in used]
    known = recognise(free, TEXT_WORDS).values()
    return [name for name in known if dump.arrays[name].ndim in (1, 2)]


def unknown_texts(dump: Dump) -> list[str]:
    """The lists of strings whose names say nothing."""
    known = set(recognise(dump.texts, TEXT_WORDS).values())
    return [name for name in dump.texts if name not in known]


def _as_words(ids: Array) -> list[Any]:
    if ids.ndim == 2:
        return [_as_words(row) for row in ids]
    return [f"{value:g}" if value % 1 else str(int(value)) for value in ids.tolist()]
