"""Problem: one reason why shapes do not fit, with what to change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Problem:
    """What does not fit, in a sentence that says what to change.

    `severity` "warning" is said and fits all the same (very thin heads). The place is a layer's
    path, a stage, a tensor by its name in the file, a field of the configuration, a file: each None
    where it concerns none.
    """

    code: str
    message: str
    severity: str = "error"
    layer: str | None = None
    stage: str | None = None
    tensor: str | None = None
    field: str | None = None
    file: str | None = None

    def to_dict(self) -> dict[str, Any]:
        names = ("layer", "stage", "tensor", "field", "file")
        return {
            "code": self.code,
            "message": self.message,
            "severity": self.severity,
            "where": {name: getattr(self, name) for name in names},
        }
