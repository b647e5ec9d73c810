"""The result of `attn check dump`: which stage does not follow from the one before it, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from attn_cli.core.findings import Finding
from attn_cli.core.results import InputSummary, json_number
from attn_cli.core.results_diff import StageResult
from attn_cli.core.results_mistakes import Diagnosis
from attn_cli.core.settings import Settings

SCHEMA = "attn.check.dump/1"

StageVerdict = Literal["given", "consistent", "inconsistent", "not checked"]
DumpVerdict = Literal["consistent", "inconsistent", "undecided"]


@dataclass(frozen=True, slots=True)
class StageCheck:
    """One stage of the file. `given`: it is what the others are made of.

    `made_from` names the stages that it was recomputed from, the nearest ones that the file holds.
    `result` holds the file (left) against what they make (right); None where nothing was
    recomputed, and `reason` says why.
    """

    stage: str
    name: str
    shape: tuple[int, ...]
    verdict: StageVerdict
    made_from: tuple[str, ...] = ()
    result: StageResult | None = None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        found = self.result
        return {
            "stage": self.stage,
            "name": self.name,
            "shape": list(self.shape),
            "verdict": self.verdict,
            "made_from": list(self.made_from),
            "reason": self.reason or None,
            "max_abs": None if found is None else json_number(found.max_abs),
            "budget": None if found is None else json_number(found.budget),
            "beyond": None if found is None else found.beyond,
            "elements": None if found is None else found.elements,
            "where": None if found is None else dict(found.where) or None,
            "tokens": {} if found is None else dict(found.tokens),
            "values": _values(found),
            "nonfinite": {} if found is None else {n: dict(c) for n, c in found.nonfinite.items()},
            "signature": [] if found is None else [fact.to_dict() for fact in found.signature],
        }


def _values(found: StageResult | None) -> dict[str, Any] | None:
    """The worst element in the file, and as it is made."""
    if found is None or found.values is None:
        return None
    held, made = found.values
    return {"held": json_number(held), "made": json_number(made)}


@dataclass(frozen=True, slots=True)
class DumpResult:
    """Everything `attn check dump` knows. `told` is how the precision is known, where not by the
    arrays' dtype; `masked` None: something is hidden, and nobody said what should be."""

    source: str
    dtype: str
    told: str
    input: InputSummary | None
    settings: Settings
    stages: tuple[StageCheck, ...]
    tolerance: str
    masked: bool | None = False
    diagnosis: Diagnosis = field(default_factory=Diagnosis)
    findings: tuple[Finding, ...] = ()

    @property
    def verdict(self) -> DumpVerdict:
        verdicts = {stage.verdict for stage in self.stages}
        if "inconsistent" in verdicts:
            return "inconsistent"
        return "consistent" if "consistent" in verdicts else "undecided"

    @property
    def first_inconsistent(self) -> StageCheck | None:
        """The first stage that does not follow, in the order of the formula."""
        return next((stage for stage in self.stages if stage.verdict == "inconsistent"), None)

    @property
    def coverage(self) -> Mapping[str, Any]:
        """Which stages were recomputed, which are what came in, and why others were not checked."""
        checked = [s.stage for s in self.stages if s.verdict in ("consistent", "inconsistent")]
        return {
            "checked": checked,
            "given": [s.stage for s in self.stages if s.verdict == "given"],
            "not_checked": {s.stage: s.reason for s in self.stages if s.verdict == "not checked"},
            "total": len(self.stages),
        }

    def to_dict(self) -> dict[str, Any]:
        """The object of `--json`, schema attn.check.dump/1."""
        first = self.first_inconsistent
        return {
            "schema": SCHEMA,
            "source": self.source,
            "dtype": self.dtype,
            "dtype_known_by": self.told or None,
            "verdict": self.verdict,
            "input": None if self.input is None else self.input.to_dict(),
            "settings": self.settings.to_dict(),
            "tolerance": self.tolerance,
            "stages": [stage.to_dict() for stage in self.stages],
            "first_inconsistent": None if first is None else first.stage,
            **self.diagnosis.to_dict(),
            "coverage": dict(self.coverage),
            "findings": [finding.to_dict() for finding in self.findings],
        }
