"""Ablation: how a model's output moves when nothing may look at a token, beside its weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attn_cli.core.model_calls import CallPlace
from attn_cli.core.model_flow import TokenPlace
from attn_cli.core.results import json_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """How far rows of the output moved; the token's own rows and padding are not among them.

    `moved` is the length of the difference over that of the row before, `most` its largest, at
    `where`. Of logits also `kl`, KL(before ‖ after) of the probabilities in nats, and `changed`,
    in how many of the `rows` another token (or class) is the likeliest; NaN and None otherwise.
    """

    rows: int
    moved: float
    most: float
    where: TokenPlace | None
    kl: float
    changed: int | None

    def to_dict(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "moved": json_number(self.moved),
            "most": json_number(self.most),
            "where": None if self.where is None else self.where.to_dict(),
            "kl": json_number(self.kl),
            "changed": self.changed,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerAblation:
    """One layer: the weight that others gave the token, and what moves if this layer loses it.

    `weight` and `chance` are means over the heads, `largest` is that of head `head`.
    """

    place: CallPlace
    stack: str
    layer: int
    weight: float
    chance: float
    largest: float
    head: int
    movement: Movement

    def to_dict(self) -> dict[str, Any]:
        return {
            "layer": self.layer,
            "stack": self.stack,
            "path": str(self.place),
            "weight": json_number(self.weight),
            "chance": json_number(self.chance),
            "largest": json_number(self.largest),
            "largest_head": self.head,
            "movement": self.movement.to_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """The tokens that were taken away, all layers at once, and each of the shown layers alone.

    `output` names what of the model's output was compared.
    """

    asked: str
    tokens: tuple[TokenPlace, ...]
    output: str
    everywhere: Movement
    layers: tuple[LayerAblation, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "asked": self.asked,
            "tokens": [token.to_dict() for token in self.tokens],
            "output": self.output,
            "everywhere": self.everywhere.to_dict(),
            "layers": [layer.to_dict() for layer in self.layers],
        }
