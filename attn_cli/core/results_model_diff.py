"""Frozen results of `attn model A --diff B`: two models on the same tokens, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from attn_cli.core.compare import RANK, Verdict
from attn_cli.core.results import json_number
from attn_cli.core.results_model_ways import CALL_STAGES

Own = Literal["own", "inherited"]
LAYER_STAGES = ("input", *CALL_STAGES, "output")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSide:
    """One side: what was loaded and how, and how many calls of attention it makes."""

    source: str
    architecture: str
    dtype: str
    backend: str
    device: str
    calls: int

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class StageGap:
    """One stage of both sides. `shapes` are both where they differ: then nothing is compared.

    `max_abs` and `budget` are of the head that goes farthest beyond its budget, the sum of both
    sides' budgets; `head` (None without heads), `position` and `token` are of the first row beyond
    it, or of the row that is farthest apart where none is.
    """

    verdict: Verdict
    max_abs: float = 0.0
    budget: float = 0.0
    head: int | None = None
    position: int | None = None
    token: str | None = None
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "max_abs": json_number(self.max_abs),
            "budget": json_number(self.budget),
            "head": self.head,
            "position": self.position,
            "token": self.token,
            "shapes": None if self.shapes is None else [list(shape) for shape in self.shapes],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerDiff:
    """One layer of both sides: the stages of one attention call, or a layer without any.

    `stages` holds those of LAYER_STAGES that both sides have: "input" of the first layer of a stack
    alone, "output" behind a layer's last call. `fault` says of a layer that is different whether it
    makes other numbers of the left side's input ("own"), from stage `own_stage` on, or only of its
    own ("inherited"); None where that could not be told.
    """

    where: str
    right_where: str
    stack: str
    layer: int
    cross: bool
    stages: Mapping[str, StageGap]
    fault: Own | None = None
    own_stage: str | None = None

    @property
    def verdict(self) -> Verdict:
        """The worst of its stages."""
        verdicts = [stage.verdict for stage in self.stages.values()]
        return max(verdicts, key=RANK.index, default="identical")

    @property
    def first(self) -> str | None:
        """The first stage that is different."""
        return next((name for name, gap in self.stages.items() if gap.verdict == "different"), None)

    def to_dict(self) -> dict[str, Any]:
        plain = ("where", "right_where", "stack", "layer", "cross", "verdict")
        return {
            **{name: getattr(self, name) for name in plain},
            "first_difference": self.first,
            "fault": self.fault,
            "own_stage": self.own_stage,
            "stages": {name: stage.to_dict() for name, stage in self.stages.items()},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDiff:
    """Everything that `--diff` found. `tokens`: the sides did not read the same, in words."""

    left: ModelSide
    right: ModelSide
    layers: Sequence[LayerDiff]
    output: StageGap | None
    output_fault: Own | None = None
    tokens: str = ""
    unpaired: str = ""

    @property
    def verdict(self) -> Verdict:
        """The worst of all; different where the sides read different tokens."""
        if self.tokens or self.unpaired:
            return "different"
        verdicts = [layer.verdict for layer in self.layers]
        verdicts += [] if self.output is None else [self.output.verdict]
        return max(verdicts, key=RANK.index, default="identical")

    @property
    def first(self) -> LayerDiff | None:
        """The first layer that is different."""
        return next((layer for layer in self.layers if layer.verdict == "different"), None)

    def to_dict(self) -> dict[str, Any]:
        first = self.first
        return {
            "left": self.left.to_dict(),
            "right": self.right.to_dict(),
            "verdict": self.verdict,
            "tokens": self.tokens,
            "unpaired": self.unpaired,
            "first_difference": None
            if first is None
            else {"where": first.where, "layer": first.layer, "stage": first.first},
            "layers": [layer.to_dict() for layer in self.layers],
            "output": None if self.output is None else self.output.to_dict(),
            "output_fault": self.output_fault,
        }
