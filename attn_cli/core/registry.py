"""Registry: name → "module:attribute", resolved on first use, with a did-you-mean error."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar, cast

from attn_cli.errors import InputError

T = TypeVar("T")


class Registry(Generic[T]):
    """A literal table of names; an entry's module is imported when the entry is first asked for.

    >>> words = Registry("word", {"sum": "attn_cli.stats.row_sum:STATISTIC"})
    >>> words["sun"]
    Traceback (most recent call last):
    attn_cli.errors.InputError: there is no word 'sun' (did you mean 'sum'? known: sum)
    """

    def __init__(self, kind: str, entries: Mapping[str, str]) -> None:
        self.kind = kind
        self.entries = entries

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __getitem__(self, name: str) -> T:
        """The entry called `name`; InputError names the nearest entry where there is none."""
        if name not in self.entries:
            raise unknown_name(self.kind, name, tuple(self.entries))
        module, attribute = self.entries[name].split(":")
        return cast(T, getattr(importlib.import_module(module), attribute))


def unknown_name(kind: str, name: str, known: tuple[str, ...]) -> InputError:
    """The error for a name that is not in `known`: says the nearest one and lists them all."""
    small = {word.casefold(): word for word in known}
    near = difflib.get_close_matches(name.casefold(), small, n=1)
    meant = f"did you mean {small[near[0]]!r}? " if near else ""
    return InputError(f"there is no {kind} {name!r}", hint=f"{meant}known: {', '.join(known)}")
