"""Layer: the projections of a run with their widths, and how they came about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from attn_cli.core.findings import Finding
from attn_cli.core.layer import Projections
from attn_cli.core.settings import Init, WeightsLayout
from attn_cli.recognize.widths import Widths


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """Projections out of the file `source` or drawn by `init` from `seed`.

    `layout` is how they lie in the file; `dtypes` maps its arrays, as a message names them, to
    their precision there.
    """

    projections: Projections
    widths: Widths
    source: str | None = None
    layout: WeightsLayout | None = None
    init: Init | None = None
    seed: int | None = None
    dtypes: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
