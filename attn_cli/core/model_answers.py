"""Answers: what a look into a model says to the questions that were asked of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attn_cli.core.findings import Finding
from attn_cli.core.head_condition import Met
from attn_cli.core.model_ablation import Ablation
from attn_cli.core.model_flow import Flow
from attn_cli.core.model_health import Health


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """One field a question, None where it was not asked; `met` has one entry a condition."""

    flow: Flow | None = None
    sensitive: Flow | None = None
    ablation: Ablation | None = None
    health: Health | None = None
    met: tuple[Met, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def any_shown(self) -> bool:
        """Whether something was asked that has a part of the screen to itself."""
        return any((self.flow, self.sensitive, self.ablation, self.health))

    @property
    def failed(self) -> bool:
        """Whether there is an alarm, or a condition that some head meets or has no numbers for."""
        alarming = self.health is not None and bool(self.health.alarms)
        return alarming or any(met.failed for met in self.met)

    @property
    def fine(self) -> tuple[str, ...]:
        """What was asked for and did not occur."""
        quiet = self.health is not None and not self.health.alarms
        unmet = (met.unmet for met in self.met if not met.failed)
        return (*(("no alarm",) if quiet else ()), *unmet)

    def to_dict(self) -> dict[str, Any]:
        parts = {name: getattr(self, name) for name in ("health", "flow", "sensitive", "ablation")}
        return {
            **{name: None if part is None else part.to_dict() for name, part in parts.items()},
            "conditions": [met.to_dict() for met in self.met],
        }
