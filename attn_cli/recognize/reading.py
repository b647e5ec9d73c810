"""Reading: a file understood, as attention inputs with everything that was decided on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from attn_cli.core.findings import Finding
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results import InputSummary
from attn_cli.core.settings import Settings


@dataclass(frozen=True, slots=True)
class Reading:
    """What a dump means: the question to compute, its settings, and the notes that say so.

    `inputs.mask` already holds the mask expression and the file's boolean masks together;
    additive masks are in `inputs.additive`. `names` maps attn's word to the file's ("q" →
    "query_states"). `tables` are the learned positions or biases that are used, by the name under
    which they are saved. Every reading and conversion that was chosen is in `findings`.
    """

    inputs: AttentionInputs
    summary: InputSummary
    settings: Settings
    names: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    tables: Mapping[str, NDArray[Any]] = field(default_factory=dict)
