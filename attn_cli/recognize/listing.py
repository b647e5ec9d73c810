"""Listing: names out of a file as a message shows them."""

from __future__ import annotations

from collections.abc import Iterable

from attn_cli.core.dump import Dump
from attn_cli.formats.names import LONGEST, printable

_LISTED = 8


def listing(dump: Dump) -> str:
    """The arrays with their shapes, the lists of strings after them."""
    arrays = [f"{fit_to_print(name)} {array.shape}" for name, array in dump.arrays.items()]
    return _first(arrays + [f"{fit_to_print(name)} (text)" for name in dump.texts])


def fit_to_print(name: str) -> str:
    """A name out of a file as a message shows it: no control characters, no endless length."""
    return printable(name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…") or "''"


def some(names: Iterable[str]) -> str:
    """The first of the names, and how many more there are."""
    return _first([fit_to_print(name) for name in names])


def _first(every: list[str]) -> str:
    shown = ", ".join(every[:_LISTED])
    return shown if len(every) <= _LISTED else f"{shown} and {len(every) - _LISTED} more"
