"""Flow: the weight that some tokens of a model's input give to others, head by head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attn_cli.core.model_calls import CallPlace
from attn_cli.core.results import json_number


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """A token by its batch item and position, both from 0."""

    item: int
    position: int
    token: str

    def to_dict(self) -> dict[str, Any]:
        return {"item": self.item, "position": self.position, "token": self.token}


@dataclass(frozen=True, slots=True)
class FlowHead:
    """One head: means over the queries that count.

    `weight` is what a query gives to all the keys together, `largest` what it gives to one of them,
    `chance` what it would give to all if it looked at its visible keys alike.
    """

    place: CallPlace
    stack: str
    layer: int
    head: int
    queries: int
    weight: float
    largest: float
    chance: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "layer": self.layer,
            "stack": self.stack,
            "path": str(self.place),
            "head": self.head,
            "queries": self.queries,
            "weight": json_number(self.weight),
            "largest": json_number(self.largest),
            "chance": json_number(self.chance),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """From which queries to which keys, and every head with the strongest first.

    `asked` is the question as it was written, `matched` where its pattern was looked for: "token",
    "text", or "" without a pattern. Padding is on neither side.
    """

    asked: str
    matched: str
    queries: tuple[TokenPlace, ...]
    keys: tuple[TokenPlace, ...]
    heads: tuple[FlowHead, ...]

    def to_dict(self) -> Mapping[str, Any]:
        return {
            "asked": self.asked,
            "matched": self.matched,
            "from": [token.to_dict() for token in self.queries],
            "to": [token.to_dict() for token in self.keys],
            "heads": [head.to_dict() for head in self.heads],
        }
