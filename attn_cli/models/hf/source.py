"""Source: where the files of a model are, and what the user calls it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from attn_cli.core.findings import Finding, note
from attn_cli.formats.names import printable


@dataclass(frozen=True, slots=True)
class Source:
    """`name` as given; the folder that holds config.json; the commit of what came from the hub.

    `own_code`: the model brings code (`auto_map`) that is not run, since transformers has its own.
    """

    name: str
    folder: Path
    commit: str | None = None
    own_code: bool = False

    @property
    def notes(self) -> tuple[Finding, ...]:
        """Which version of a model on the hub was read, and whose code it is run by."""
        return tuple(self._notes())

    def _notes(self) -> Iterator[Finding]:
        if self.commit is not None:
            yield note("hub", f"{printable(self.name)} is the hub's, at {self.commit[:12]}")
        if self.own_code:
            yield note(
                "own-code-not-run",
                "the model comes with code of its own, which may do something else: this is "
                "transformers' own class; --trust-remote-code runs the model's",
            )
