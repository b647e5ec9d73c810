"""Runs an input past every check, as `attn run` does, and hands back the findings."""

from __future__ import annotations

from attn_cli.checks.run_checks import RunChecks
from attn_cli.core.engine import Ask
from attn_cli.core.findings import Finding
from attn_cli.core.inputs import AttentionInputs
from attn_cli.engines import ENGINES
from attn_cli.stats import STATISTICS


def findings(
    inputs: AttentionInputs,
    *,
    engine: str = "numpy",
    dtype: str = "float64",
    file_precision: str = "float64",
) -> tuple[Finding, ...]:
    """All that is said of one input, the most severe first."""
    checks = RunChecks(inputs, file_precision=file_precision)
    ask = Ask(
        watch=checks.watch,
        stats=[STATISTICS[name] for name in STATISTICS],
        top=5,
        cosine=True,
        dtype=dtype,
    )
    return checks.findings(ENGINES[engine].run(inputs, ask))


def codes(found: tuple[Finding, ...]) -> list[str]:
    return [finding.code for finding in found]


def the(found: tuple[Finding, ...], code: str) -> Finding:
    """The one finding of this code."""
    (only,) = [finding for finding in found if finding.code == code]
    return only
