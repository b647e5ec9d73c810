"""Finding: one thing that attn says of a run, with its code, severity and place."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["note", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("note", "warning", "error")


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is: a stage and indices from 0; None where it concerns them all."""

    stage: str | None = None
    layer: int | None = None
    batch: int | None = None
    head: int | None = None
    query: int | None = None
    key: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing said of a run. `note`: a reading or convention that attn chose; else a finding."""

    code: str
    severity: Severity
    message: str
    where: Place = Place()

    def to_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "where": self.where.to_dict(),
        }


def note(code: str, message: str, where: Place = Place()) -> Finding:
    """A finding of severity `note`: a reading, conversion or convention that attn chose."""
    return Finding(code, "note", message, where)
