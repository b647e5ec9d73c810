"""Questions: what may be asked of a model beside the report, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

from attn_cli.core.head_condition import HeadCondition
from attn_cli.core.model_health import SUSTAINED
from attn_cli.workflows.model.flow_sides import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """`sides` are those of `flow`, read; an alarm of `health` needs `sustained` texts in a row."""

    health: bool = False
    sustained: int = SUSTAINED
    flow: str | None = None
    sides: tuple[Side, Side] | None = None
    sensitive: str | None = None
    ablate: str | None = None
    conditions: tuple[HeadCondition, ...] = ()
