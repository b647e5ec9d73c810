"""fine: what was looked for and not found is said, and only where it was not found."""

from __future__ import annotations

from attn_cli.checks.fine import fine
from attn_cli.core.findings import Finding

ALL = ("every row sums to 1", "no empty rows", "no NaN or inf")


def said(*codes: str) -> tuple[str, ...]:
    return fine(Finding(code, "warning", "") for code in codes)


def test_what_holds_is_said() -> None:
    assert said() == ALL
    assert said("saturated-row", "scale-missing") == ALL


def test_what_does_not_hold_is_not() -> None:
    assert said("row-sum") == ALL[1:]
    assert said("sinks") == ALL[1:]
    assert said("empty-row") == ALL[2:]  # an empty row sums to 0
    assert said("nonfinite") == said("nonfinite-output") == ALL[1:2]
    assert said("hidden-nonfinite") == ALL[:2]
