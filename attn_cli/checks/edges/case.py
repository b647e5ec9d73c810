"""Case: one boundary question with what is right; Subject: whoever answers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """What a case must give by a closed form, in float64, and that form in words.

    `output` (B, H, L, d_v), `weights` (B, H, L, S) where the form says them. `exact`: to the last
    bit; otherwise within the rounding that is measured on the case.
    """

    words: str
    output: Array
    weights: Array | None = None
    exact: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One question of a kind, to be computed in `dtype`.

    `asks` says in words what must hold; `mask` how its mask is written. The arrays of `inputs` are
    float64 and hold numbers that `dtype` has. Without `expected` the float64 oracle says what is
    right; a row that sees no key is 0 in any case.
    """

    kind: str
    name: str
    asks: str
    inputs: AttentionInputs
    dtype: str
    mask: str = ""
    expected: Expected | None = None

    @property
    def path(self) -> str:
        """What --case takes: kind/name."""
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What a subject gives: output (B, H, L, d_v), and weights (B, H, L, S) where it has them."""

    output: Array
    weights: Array | None = None


class Subject(Protocol):
    """Whoever computes attention: an engine, or somebody's function behind an adaptor.

    `attend` raises UnsupportedError where it cannot do what is asked (a softcap, a precision);
    whatever else it raises is a failure of the case.
    """

    @property
    def name(self) -> str: ...

    def attend(self, inputs: AttentionInputs, dtype: str) -> Answer: ...
