"""What was checked and holds, in words, so that silence is not mistaken for not looking."""

from __future__ import annotations

from collections.abc import Iterable

from attn_cli.core.findings import Finding

NOT_FINITE = frozenset({"nonfinite", "nonfinite-output"})


def fine(findings: Iterable[Finding]) -> tuple[str, ...]:
    """The checks of every run that found nothing: sums, empty rows, NaN and inf."""
    codes = {finding.code for finding in findings}
    held = {
        "every row sums to 1": {"row-sum", "sinks", "empty-row"} | NOT_FINITE,
        "no empty rows": {"empty-row"},
        "no NaN or inf": NOT_FINITE | {"hidden-nonfinite"},
    }
    return tuple(words for words, against in held.items() if not codes & against)
