"""Frozen result of `attn check impl`: the verdict on somebody's code, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from attn_cli.core.code_trace import CodeTrace
from attn_cli.core.findings import Finding
from attn_cli.core.results import json_number

SCHEMA = "attn.check.impl/1"

Verdict = Literal["correct", "wrong", "fragile", "undecided"]
Status = Literal["holds", "fails", "note", "skipped"]
Outcome = Literal["agrees", "convention", "differs", "fails", "not taken"]


@dataclass(frozen=True, slots=True)
class FoundMistake:
    """A named mistake: `line` of the user's file where it is, None where that is not known.

    `source` is the text of that line, `note` says which way of committing it this is, `evidence`
    what shows it.
    """

    code: str
    title: str
    stage: str
    explanation: str
    evidence: tuple[str, ...]
    fix: str
    note: str = ""
    line: int | None = None
    source: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "title": self.title,
            "stage": self.stage,
            "line": self.line,
            "source": self.source,
            "note": self.note,
            "explanation": self.explanation,
            "evidence": list(self.evidence),
            "fix": self.fix,
        }


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another explanation that fits as well; `with_codes` are the mistakes that go with it."""

    code: str
    title: str
    tell_apart: str
    with_codes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "title": self.title,
            "tell_apart": self.tell_apart,
            "with": list(self.with_codes),
        }


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One property that attention has, and whether this code has it.

    `note`: it is a matter of convention, and the detail says which; `skipped`: it does not apply,
    or could not be tried.
    """

    check: str
    status: Status
    detail: str

    def to_dict(self) -> dict[str, Any]:
        return {"check": self.check, "status": self.status, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """One question and what came: `worst` is the farthest output in the rows that count.

    `shape` is (B, H, L, S); `rows` of `rows_total` judged rows differ, by a convention
    where that is the outcome. `detail` says what was
    raised, where it fails.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    outcome: Outcome
    worst: float
    budget: float
    rows: int
    rows_total: int
    boundary: str | None = None
    detail: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "outcome": self.outcome,
            "worst": json_number(self.worst),
            "budget": json_number(self.budget),
            "rows": self.rows,
            "rows_total": self.rows_total,
            "boundary": self.boundary,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class Asked:
    """How many probes were asked of those that there are, and what `left_out` was not tried, in
    words. `seconds` is the time that there was for all, None where nothing was cut."""

    probes: int
    of: int
    left_out: tuple[str, ...] = ()
    seconds: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "probes": self.probes,
            "of": self.of,
            "left_out": list(self.left_out),
            "seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True, eq=False)
class ImplResult:
    """What `attn check impl` knows of somebody's code.

    `plan` is attn.plan/1 as it was used; `findings` what attn chose on the way. `conventions` are
    ways in which the code is no textbook attention and right all the same. `signatures` describe
    the difference where no mistake explains it; `asked` says whether the time was enough.
    """

    name: str
    file: str | None
    verdict: Verdict
    mistakes: tuple[FoundMistake, ...]
    alternatives: tuple[Alternative, ...]
    conventions: tuple[str, ...]
    plan: Mapping[str, Any]
    behaviour: tuple[Behaviour, ...]
    probes: tuple[ProbeResult, ...]
    asked: Asked
    findings: tuple[Finding, ...] = ()
    trace: CodeTrace | None = None
    signatures: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """The object of `--json`, schema attn.check.impl/1."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "file": self.file,
            "verdict": self.verdict,
            "mistakes": [mistake.to_dict() for mistake in self.mistakes],
            "alternatives": [other.to_dict() for other in self.alternatives],
            "conventions": list(self.conventions),
            "plan": dict(self.plan),
            "trace": [] if self.trace is None else self.trace.to_dict()["lines"],
            "first_parting": _parting(self.trace),
            "signatures": list(self.signatures),
            "behaviour": [behaviour.to_dict() for behaviour in self.behaviour],
            "probes": [probe.to_dict() for probe in self.probes],
            "asked": self.asked.to_dict(),
            "findings": [finding.to_dict() for finding in self.findings],
        }


def _parting(trace: CodeTrace | None) -> dict[str, Any] | None:
    if trace is None or trace.first_parting is None:
        return None
    return trace.first_parting.to_dict()


@dataclass(frozen=True, slots=True)
class UnusableImpl:
    """Code that cannot be imported, found, built or called: the step, and what was said there."""

    name: str
    message: str
    hint: str
    trouble: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The object of `--json` for code that cannot be checked; `raised` is what it said itself,
        `message` the sentence that attn says of it."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "verdict": "unusable",
            **self.trouble,
            "raised": self.trouble["message"],
            "message": self.message,
            "hint": self.hint,
        }
