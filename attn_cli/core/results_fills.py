"""Frozen result of `attn mask --fills`: what PyTorch makes of fill values and of empty rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from attn_cli.core.results import json_number

How = Literal["filled", "added"]
RowKind = Literal["visible", "empty"]


@dataclass(frozen=True, slots=True)
class FillCase:
    """softmax of one row of `scores` after a mask was filled in or added, in one dtype.

    `hidden` are the keys that the mask hides. `weights` are what came out, empty where PyTorch
    raised `error`. `outcome` names what they are; `fill` is the value in the dtype.
    """

    row: RowKind
    how: How
    fill_name: str
    fill: float
    dtype: str
    weights: tuple[float, ...]
    outcome: str
    error: str = ""

    def to_dict(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__slots__}
        weights = [json_number(weight) for weight in self.weights]
        return {**plain, "fill": json_number(self.fill), "weights": weights}


@dataclass(frozen=True, slots=True)
class EmptyRowCase:
    """What one function of PyTorch returns for a row that sees no key, in one dtype."""

    function: str
    mask: str
    dtype: str
    weights: tuple[float, ...]
    outcome: str
    error: str = ""

    def to_dict(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__slots__}
        return {**plain, "weights": [json_number(weight) for weight in self.weights]}


@dataclass(frozen=True, slots=True)
class FillsResult:
    """Everything that was measured, with the row of scores and the release of PyTorch."""

    torch: str
    scores: tuple[float, ...]
    hidden: tuple[int, ...]  # the keys that the mask of the visible row hides
    softmax: tuple[float, ...]  # of the scores without a mask
    masked_softmax: tuple[float, ...]  # the right answer for the visible row
    fills: tuple[FillCase, ...]
    empty_rows: tuple[EmptyRowCase, ...]

    def to_dict(self) -> dict[str, Any]:
        """The object of `--json`, schema attn.fills/1."""
        return {
            "schema": "attn.fills/1",
            "torch": self.torch,
            "scores": list(self.scores),
            "hidden": list(self.hidden),
            "softmax": list(self.softmax),
            "masked_softmax": list(self.masked_softmax),
            "fills": [case.to_dict() for case in self.fills],
            "empty_rows": [case.to_dict() for case in self.empty_rows],
        }
