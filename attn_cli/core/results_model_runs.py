"""Runs: what running a model again, in other ways or beside another model, showed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attn_cli.core.results_model_diff import ModelDiff
from attn_cli.core.results_model_ways import WayCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """`checks` has one entry for every way of every check; `diff` is None where none was asked."""

    checks: tuple[WayCheck, ...] = ()
    diff: ModelDiff | None = None

    @property
    def any_shown(self) -> bool:
        """Whether something was asked that has a part of the screen to itself."""
        return bool(self.checks) or self.diff is not None

    @property
    def failed(self) -> bool:
        """Whether some way gives other numbers, or the models part."""
        parted = self.diff is not None and self.diff.verdict == "different"
        return parted or any(check.verdict == "different" for check in self.checks)

    @property
    def undecided(self) -> bool:
        """Whether checks were asked for and not one of them applies."""
        return bool(self.checks) and all(check.verdict is None for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """The part of the report's JSON that is its own; the checks stand beside the probes."""
        return {"diff": None if self.diff is None else self.diff.to_dict()}
