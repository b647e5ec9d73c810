"""RunChecks: every check of one run, as watchers while it passes and as findings at its end."""

from __future__ import annotations

import math

from attn_cli.checks.heads import head_findings
from attn_cli.checks.masking import HiddenCount, mask_findings
from attn_cli.checks.nonfinite import NonFiniteWatch, nonfinite_findings
from attn_cli.checks.rows import EmptyWatch, row_findings
from attn_cli.checks.scores import ScoreWatch, score_findings
from attn_cli.core.engine import Watcher
from attn_cli.core.findings import SEVERITIES, Finding
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.rounding import precision
from attn_cli.core.steps import steps
from attn_cli.core.trace import STAGES, Trace


def _score_limit(file_precision: str) -> float:
    """The largest score that the file's precision holds; products of float8 or integers are never
    kept in those."""
    kept = file_precision in ("float16", "bfloat16", "float32")
    return precision(file_precision).largest if kept else math.inf


class RunChecks:
    """Looks at every stage that an engine passes by; keeps none.

    `file_precision` is the precision of the file, whose overflow is said whatever the run uses.
    """

    def __init__(self, inputs: AttentionInputs, *, file_precision: str) -> None:
        self.inputs, self.file_precision = inputs, file_precision
        self.nonfinite = NonFiniteWatch(inputs)
        self.scores = ScoreWatch(limit=_score_limit(file_precision))
        self.hidden = HiddenCount(inputs)
        self.empty = EmptyWatch()

    @property
    def watch(self) -> dict[str, list[Watcher]]:
        """The watchers of each stage, for Ask.watch."""
        taken = {step.stage for step in steps(self.inputs, "float64")}
        looked_at = taken if self.inputs.origin is not None else taken & frozenset(STAGES)
        watch: dict[str, list[Watcher]] = {stage: [self.nonfinite] for stage in looked_at}
        watch["scores"].append(self.scores)
        for stage in ("weights", "context"):
            watch[stage].append(self.empty)
        return watch

    def findings(self, trace: Trace) -> tuple[Finding, ...]:
        """What there is to say, the most severe first."""
        self.hidden.take(trace)
        said = [
            *nonfinite_findings(self.inputs, self.nonfinite, dtype=trace.provenance.dtype),
            *row_findings(self.inputs, trace, self.empty),
            *head_findings(trace),
            *score_findings(self.inputs, self.scores, file_precision=self.file_precision),
            *mask_findings(self.inputs, self.hidden),
        ]
        return tuple(sorted(said, key=lambda finding: -SEVERITIES.index(finding.severity)))
