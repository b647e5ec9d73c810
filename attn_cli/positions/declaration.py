"""Scheme: what a position scheme declares of itself — its name, how it acts, how it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

from attn_cli.core.positions import Rotation, ScoreBias

Array = NDArray[Any]
Acts = Literal["nothing", "added", "rotates", "bias"]
Table = Literal["positions", "relative"]

ROPE_BASE = 10_000.0
MAX_DISTANCE = 128  # T5's


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingredients:
    """What a scheme may be made from; each takes what it needs.

    `table` is the learned table that a scheme asks for, as its `check_table` let it pass.
    """

    heads: int
    variant: str = ""
    rope_base: float = ROPE_BASE
    table: Array | None = None
    bidirectional: bool = True
    max_distance: int = MAX_DISTANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """A position scheme as the registry knows it.

    It acts in one of three places, so at most one of `encode`, `rotate` and `bias` is there:
    `encode(ingredients, positions, d_model)` gives the vectors (n, d_model) that are added to the
    tokens at n positions, `rotate(ingredients)` what turns q and k, `bias(ingredients)` what is
    added to the scaled scores. `says` puts the choices that were made into words.
    `variants` are written after a colon, the first is the default; `table` names the array that
    must come from a file, `settings` the settings that it reads.
    """

    name: str
    description: str
    says: Callable[[Ingredients], str]
    encode: Callable[[Ingredients, range, int], Array] | None = None
    rotate: Callable[[Ingredients], Rotation] | None = None
    bias: Callable[[Ingredients], ScoreBias] | None = None
    variants: tuple[str, ...] = ()
    table: Table | None = None
    settings: tuple[str, ...] = ()

    @property
    def acts(self) -> Acts:
        """Where it acts: on the token vectors, on q and k, on the scores, or not at all."""
        if self.encode is not None:
            return "added"
        if self.rotate is not None:
            return "rotates"
        return "nothing" if self.bias is None else "bias"

    @property
    def spellings(self) -> tuple[str, ...]:
        """The ways to write it: its name, and with each of its variants."""
        return (self.name, *(f"{self.name}:{variant}" for variant in self.variants))
