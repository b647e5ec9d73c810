"""Source: where the files of a model are, and what the user calls it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from attn_cli.core.findings import Finding, note
from attn_cli.formats.names import printable


@dataclass(frozen=True, slots=True)
class Source:
    """`name` as given; the folder that holds config.json; the commit of what came from the hub."""

    name: str
    folder: Path
    commit: str | None = None

    @property
    def notes(self) -> tuple[Finding, ...]:
        """Which version of a model on the hub was read."""
        if self.commit is None:
            return ()
        said = f"{printable(self.name)} is the hub's, at {self.commit[:12]}"
        return (note("hub", said),)
