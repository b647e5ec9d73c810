"""Kinds: a name that attn knows must stand for numbers; a mask that is text is never left out."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from attn_cli.core.dump import Dump
from attn_cli.core.names import CORE_WORDS, INPUT_WORDS, recognise
from attn_cli.errors import InputError
from attn_cli.formats.nested import describe
from attn_cli.recognize.listing import fit_to_print
from attn_cli.recognize.settings import NAMES

# What changes the result: left out, it would be missed. A second x is not missed.
BESIDE = frozenset(INPUT_WORDS) - {*CORE_WORDS, "context"}

_NOTHING = describe(None)
_SETTINGS = frozenset({*NAMES, "causal", "is_causal", "num_heads", "n_heads", "num_kv_heads"})


def refuse_other_kinds(dump: Dump, roles: Collection[str]) -> None:
    """InputError where a name that means one of `roles` stands for text or another value.

    null says that there is none.
    """
    for name, what in dump.others.items():
        if what != _NOTHING and not set(recognise([name], INPUT_WORDS)).isdisjoint(roles):
            hint = 'a mask expression stands in the settings: "settings": {"mask": "causal"}'
            raise InputError(
                f"{fit_to_print(name)} is {what} where an array of numbers is expected",
                hint=hint if "mask" in name.lower() else "",
            )
    for name, words in dump.texts.items():
        if not set(recognise([name], INPUT_WORDS)).isdisjoint(roles):
            raise InputError(
                f"{fit_to_print(name)} holds text where numbers are expected{_first(words)}"
            )


def stray_settings(dump: Dump, unused: Iterable[str]) -> list[str]:
    """The unused single numbers, and other values, that are called like a setting."""
    single = [name for name in unused if dump.arrays[name].size == 1]
    told = [name for name, what in dump.others.items() if what != _NOTHING]
    return [name for name in (*single, *told) if name.lower() in _SETTINGS]


def _first(words: Any) -> str:
    """Where the first of some words stands, or of rows of words, and what it is."""
    if words and isinstance(words[0], str):
        return f": position 0 is {describe(words[0])}"
    row = next((i for i, row in enumerate(words) if row), None)
    return "" if row is None else f": row {row}, column 0 is {describe(words[row][0])}"
