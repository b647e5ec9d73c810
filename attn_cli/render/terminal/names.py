"""The tokens of a run as they are shown: safe, and told apart by index where they repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attn_cli.core.inputs import Labels
from attn_cli.core.results import RunResult
from attn_cli.render.terminal.console import Screen

if TYPE_CHECKING:
    from attn_cli.core.explanation import Explanation


@dataclass(frozen=True, slots=True)
class Names:
    """Names queries and keys on one screen; knows the tokens and which of them repeat."""

    screen: Screen
    labels: Labels | None
    repeated_queries: Sequence[frozenset[str]]
    repeated_keys: Sequence[frozenset[str]]

    def along(self, axis: str, batch: int, index: int, most: int | None = None) -> str:
        """What stands at an index of a named axis: a token of at most `most` cells, or the index.

        A token that occurs again on its axis is followed by its index.
        """
        token = self._at(axis, batch, index)
        if token is None:
            return str(index)
        again = self.repeated_queries if axis == "query" else self.repeated_keys
        return self.screen.token(token, most, index=index if token in again[batch] else None)

    def token(self, axis: str, batch: int, index: int, most: int | None = None) -> str:
        """The token alone; empty where there is none."""
        token = self._at(axis, batch, index)
        return "" if token is None else self.screen.token(token, most)

    def _at(self, axis: str, batch: int, index: int) -> str | None:
        if self.labels is None or axis not in ("query", "key"):
            return None
        return (self.labels.query if axis == "query" else self.labels.key)[batch][index]


def names(result: RunResult | Explanation, screen: Screen) -> Names:
    """The names for one result."""
    if result.labels is None:
        return Names(screen, None, (), ())
    queries, keys = result.labels.query, result.labels.key
    return Names(screen, result.labels, tuple(map(_repeated, queries)), tuple(map(_repeated, keys)))


def _repeated(tokens: Iterable[str]) -> frozenset[str]:
    return frozenset(token for token, count in Counter(tokens).items() if count > 1)
