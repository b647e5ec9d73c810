"""The result of `attn diff`: stage by stage, how two computations differ and whose fault it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from attn_cli.core.compare import Verdict
from attn_cli.core.findings import Finding
from attn_cli.core.results import InputSummary, json_number
from attn_cli.core.results_mistakes import Diagnosis
from attn_cli.core.settings import Settings

Side = Literal["left", "right"]
SIDES: tuple[Side, Side] = ("left", "right")


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that was measured of a difference: its name, in words, and as numbers."""

    name: str
    words: str
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {"fact": self.name, "words": self.words, **self.numbers}


@dataclass(frozen=True, slots=True)
class OfSide:
    """One side of a stage: how far it is from float64, and what its own step is to blame for.

    `error` is the largest difference from the oracle, NaN where there is none, `beyond` whether
    some element is farther off than `budget` allows there. `own_fault`: it is not what the side's
    own stage before it makes; None where that could not be told. `derived`: the side does not show
    the stage, and it was made, in float64, from what the side does show.
    """

    shape: tuple[int, ...]
    dtype: str
    error: float
    beyond: bool
    budget: float
    own_fault: bool | None
    derived: bool = False

    @property
    def inherited(self) -> bool:
        """Whether it is wrong, and right given what it received."""
        return self.beyond and self.own_fault is False


@dataclass(frozen=True, slots=True)
class StageResult:
    """One stage of both sides. `where` names axes and indices; all as in `StageDiff`.

    `nonfinite` counts, by side and class, the elements that are not finite on that side alone.
    """

    stage: str
    verdict: Verdict
    left: OfSide
    right: OfSide
    elements: int
    max_abs: float
    max_rel: float
    ulps: float
    where: Mapping[str, int]
    beyond: int
    budget: float
    nonfinite: Mapping[str, Mapping[str, int]]
    values: tuple[float, float] | None = None  # of both sides at the worst element
    tokens: Mapping[str, str] = field(default_factory=dict)
    signature: tuple[Fact, ...] = ()

    @property
    def faulty(self) -> tuple[Side, ...]:
        """The sides whose own fault shows here."""
        return tuple(side for side in SIDES if getattr(self, side).own_fault)

    @property
    def inheriting(self) -> tuple[Side, ...]:
        """The sides that are wrong here by what they received alone."""
        return tuple(side for side in SIDES if getattr(self, side).inherited)

    def to_dict(self) -> dict[str, Any]:
        sides = {"left": self.left, "right": self.right}
        return {
            "stage": self.stage,
            "verdict": self.verdict,
            "shapes": [list(side.shape) for side in sides.values()],
            "dtypes": [side.dtype for side in sides.values()],
            "elements": self.elements,
            "max_abs": json_number(self.max_abs),
            "max_rel": json_number(self.max_rel),
            "ulp": json_number(self.ulps),
            "where": dict(self.where) or None,
            "tokens": dict(self.tokens),
            "values": None if self.values is None else list(map(json_number, self.values)),
            "beyond": self.beyond,
            "budget": json_number(self.budget),
            "left_error": json_number(self.left.error),
            "right_error": json_number(self.right.error),
            "left_budget": json_number(self.left.budget),
            "right_budget": json_number(self.right.budget),
            "own_fault": list(self.faulty),
            "inherited": list(self.inheriting),
            "derived": [name for name, side in sides.items() if side.derived],
            "nonfinite": {name: dict(counts) for name, counts in self.nonfinite.items()},
            "signature": [fact.to_dict() for fact in self.signature],
        }


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which stages were compared, and why others were not: stage → the reason in words."""

    compared: tuple[str, ...]
    derived: Mapping[str, tuple[str, ...]]
    missing: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        return {
            "compared": list(self.compared),
            "derived": {stage: list(sides) for stage, sides in self.derived.items()},
            "not_compared": dict(self.missing),
            "total": len(self.compared) + len(self.missing),
        }


@dataclass(frozen=True, slots=True)
class SideInfo:
    """Who computed a side: an engine or a file, its precision, and that of its softmax."""

    name: str
    dtype: str
    kind: Literal["engine", "file"]
    device: str = "cpu"
    softmax: str | None = None
    note: str = ""  # how the precision of a file is known, where it is not its dtype

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class DiffResult:
    """Everything `attn diff` knows."""

    left: SideInfo
    right: SideInfo
    input: InputSummary | None  # what two engines computed on
    settings: Settings | None
    stages: tuple[StageResult, ...]
    coverage: Coverage
    oracle: str | None  # what float64 was computed from, None where nothing could be
    tolerance: str  # "measured", or what --atol and --rtol say
    masked: bool | None = False  # whether anything is masked; None: it is, and by what is unknown
    findings: tuple[Finding, ...] = ()
    mistakes: Mapping[Side, Diagnosis] = field(default_factory=dict)  # of sides with own faults

    @property
    def first_difference(self) -> str | None:
        """The first stage that is different, in the order of the formula."""
        return next((s.stage for s in self.stages if s.verdict == "different"), None)

    def to_dict(self) -> dict[str, Any]:
        """The object of `--json`, schema attn.diff/1."""
        return {
            "schema": "attn.diff/1",
            "left": self.left.to_dict(),
            "right": self.right.to_dict(),
            "input": None if self.input is None else self.input.to_dict(),
            "settings": None if self.settings is None else self.settings.to_dict(),
            "oracle": self.oracle,
            "tolerance": self.tolerance,
            "stages": [stage.to_dict() for stage in self.stages],
            "first_difference": self.first_difference,
            "coverage": self.coverage.to_dict(),
            "mistakes": {side: found.to_dict() for side, found in self.mistakes.items()},
            "findings": [finding.to_dict() for finding in self.findings],
        }
