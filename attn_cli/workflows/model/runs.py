"""Running a model again: --check in other ways, --diff beside another model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from attn_cli.core.results_model import ModelReport
from attn_cli.core.results_model_runs import Runs
from attn_cli.core.results_model_ways import WayCheck
from attn_cli.workflows.model.options import ModelOptions
from attn_cli.workflows.model.run_findings import run_findings, run_fine

if TYPE_CHECKING:
    from attn_cli.core.results_model_diff import ModelDiff
    from attn_cli.workflows.model.report import Watched

Busy = Callable[[str], None]


def with_runs(
    report: ModelReport, options: ModelOptions, watched: Watched, items: tuple[int, ...], tell: Busy
) -> ModelReport:
    """The report with what the checks and the other model say; as it is where none was asked."""
    checks = _checks(options, watched, items, tell) if options.checks else ()
    diff = None if options.other is None else _diff(options, watched, tell)
    runs = Runs(checks=checks, diff=diff)
    return replace(
        report,
        runs=runs,
        findings=(*report.findings, *run_findings(runs)),
        fine=(*report.fine, *run_fine(runs)),
    )


def _checks(
    options: ModelOptions, watched: Watched, items: tuple[int, ...], tell: Busy
) -> tuple[WayCheck, ...]:
    from attn_cli.models.hf.ways.checks import run_checks

    tell(f"running it again: {', '.join(options.checks)}")
    coverage = watched.capture.coverage
    return run_checks(watched.loaded, watched.inputs, coverage, options.checks, items)


def _diff(options: ModelOptions, watched: Watched, tell: Busy) -> ModelDiff:
    from attn_cli.workflows.model.diffing import diff_models

    assert options.other is not None
    tell("loading the other model")
    return diff_models(watched, options.other, options.given, tell)
