"""What was checked and holds, in words, so that silence is not mistaken for not looking."""

from __future__ import annotations

from collections.abc import Iterable

from attn_cli.core.findings import Finding

NOT_FINITE = frozenset({"nonfinite", "nonfinite-output"})
EMPTY = frozenset({"empty-row", "empty-row-nan"})


def fine(findings: Iterable[Finding], *, sums: bool = True) -> tuple[str, ...]:
    """The checks of every run that found nothing: sums, empty rows, NaN and inf.

    `sums` says whether there were weights to add up.
    """
    codes = {finding.code for finding in findings}
    held = {
        "every row sums to 1": {"row-sum", "sinks"} | EMPTY | NOT_FINITE,
        "no empty rows": EMPTY,
        "no NaN or inf": NOT_FINITE | {"hidden-nonfinite", "empty-row-nan"},
    }
    if not sums:
        del held["every row sums to 1"]
    return tuple(words for words, against in held.items() if not codes & against)
