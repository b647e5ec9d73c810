"""Reading a JSON object field by field: an error names the field, what was expected and came."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attn_cli.errors import InputError

_LONGEST = 200  # entries of a list, characters of a name: a plan is written by hand


class Fields:
    """The fields of one object. `where` is its name in messages, such as `call.mask`."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, Mapping):
            raise wrong(where, "an object", value)
        self.value: Mapping[str, Any] = value
        self.where = where
        self._read: set[str] = set()
        self._inner: list[Fields] = []

    def get(self, name: str) -> Any:
        """The field as it is, None where it is not there."""
        self._read.add(name)
        return self.value.get(name)

    def path(self, name: str) -> str:
        return f"{self.where}.{name}"

    def text(self, name: str) -> str | None:
        return _text(self.get(name), self.path(name))

    def one_of(self, name: str, known: Sequence[str]) -> str | None:
        value = self.text(name)
        if value is not None and value not in known:
            raise wrong(self.path(name), f"one of {', '.join(known)}", value)
        return value

    def texts(self, name: str) -> tuple[str, ...] | None:
        return _texts(self.get(name), self.path(name))

    def flag(self, name: str) -> bool | None:
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise wrong(self.path(name), "true or false", value)
        return value

    def count(self, name: str, most: int = 1_000_000) -> int | None:
        """A whole number from 1 to `most`."""
        value = self.get(name)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most
        ):
            raise wrong(self.path(name), f"a whole number from 1 to {most}", value)
        return value

    def number(self, name: str) -> float | None:
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise wrong(self.path(name), "a number", value)
        if abs(value) > 1e300 or not math.isfinite(value):
            raise wrong(self.path(name), "a finite number", value)
        return float(value)

    def object(self, name: str) -> Fields | None:
        value = self.get(name)
        if value is None:
            return None
        inner = Fields(value, self.path(name))
        self._inner.append(inner)
        return inner

    def plain(self, name: str) -> Mapping[str, Any]:
        """An object of names → JSON values, empty where it is not there."""
        value = self.get(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise wrong(self.path(name), "an object", value)
        return dict(value)

    def unknown(self) -> tuple[str, ...]:
        """The paths of the fields that nobody read, here and further in."""
        own = [self.path(str(name)) for name in self.value if name not in self._read]
        return (*own, *(path for inner in self._inner for path in inner.unknown()))


def wrong(where: str, expected: str, came: object) -> InputError:
    """The error for a field that is not what was expected."""
    shown = repr(came)
    return InputError(
        f"{where} is {shown if len(shown) <= 60 else shown[:60] + '…'}: expected {expected}",
        hint="docs/plan.md describes attn.plan/1",
    )


def _text(value: object, where: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise wrong(where, "a name", value)
    if len(value) > _LONGEST:
        raise wrong(where, f"at most {_LONGEST} characters", value)
    return value


def _texts(value: object, where: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > _LONGEST:
        raise wrong(where, "a list of names", value)
    named = [_text(entry, f"{where}[{index}]") for index, entry in enumerate(value)]
    if None in named:
        raise wrong(where, "a list of names", value)
    return tuple(entry for entry in named if entry is not None)
