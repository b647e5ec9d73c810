"""Origin: errors that say which file they speak of, and what q, k and v are called there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext

from attn_cli.errors import InputError
from attn_cli.formats.source import naming

MEMORY = "memory"  # the source of arrays that a program hands over: it needs no naming


class OfAnotherFile(InputError):
    """An error that names its file already, which is not the input's; `kind` is its class."""

    def __init__(self, error: InputError) -> None:
        super().__init__(error.message, error.hint)
        self.kind = type(error)


@contextmanager
def speaking_of(source: str) -> Iterator[None]:
    """Puts the file's name before the errors that are raised within, unless they name another."""
    named: OfAnotherFile | None = None
    with nullcontext() if source == MEMORY else naming(source):
        try:
            yield
        except OfAnotherFile as error:
            named = error
    if named is not None:
        raise named.kind(named.message, named.hint) from named


@contextmanager
def speaking_of_another(source: str) -> Iterator[None]:
    """The same for a second file, within `speaking_of` the input."""
    try:
        with speaking_of(source):
            yield
    except InputError as error:
        raise OfAnotherFile(error) from error


@contextmanager
def in_words_of(names: Mapping[str, str]) -> Iterator[None]:
    """Adds to errors that speak of q, k and v what these are called in the file."""
    try:
        yield
    except InputError as error:
        other = [f"{role} is {names[role]}" for role in "qkv" if names.get(role, role) != role]
        words = f"in the file, {', '.join(other)}" if other else ""
        hint = "; ".join(part for part in (error.hint, words) if part)
        raise type(error)(error.message, hint=hint) from error
