"""Listing: the names that an option knows, each with what it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """A name as it is written on the command line, and what it means in a few words."""

    name: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What `--list KIND` prints."""

    kind: str
    entries: tuple[Entry, ...]

    def to_dict(self) -> dict[str, Any]:
        """The object of `--list KIND --json`, schema attn.list/1."""
        entries = [{"name": entry.name, "meaning": entry.meaning} for entry in self.entries]
        return {"schema": "attn.list/1", "kind": self.kind, "entries": entries}
