"""check numerics: where NaN comes from, what saturates, and what each precision loses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from attn_cli import formats
from attn_cli.checks.nonfinite import hidden_findings
from attn_cli.checks.numerics.findings import (
    FAILING,
    gradient_findings,
    hunt_findings,
    saturation_findings,
)
from attn_cli.checks.rows import BY_CHANCE, SATURATED
from attn_cli.core.dump import Dump
from attn_cli.core.engine import Progress
from attn_cli.core.findings import SEVERITIES, Finding, note
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.registry import unknown_name
from attn_cli.core.results import InputSummary
from attn_cli.core.results_numerics import (
    Gradients,
    Hunt,
    NumericsResult,
    Saturation,
    StageCount,
    Thresholds,
)
from attn_cli.core.settings import Choices
from attn_cli.errors import InputError
from attn_cli.models import is_model
from attn_cli.models.passage import Passage, passages
from attn_cli.models.stream import Step
from attn_cli.recognize.one_array import load_array
from attn_cli.workflows.generated import from_shape
from attn_cli.workflows.model_reading import read_model
from attn_cli.workflows.one_kind import refuse_files, refuse_text
from attn_cli.workflows.run import read_dump
from attn_cli.workflows.selection import checked

Array = NDArray[Any]

DTYPES = ("float64", "float32", "float16", "bfloat16")
COMPARED = ("float32", "float16", "bfloat16")
HALVES = ("float16", "bfloat16")
TEXT = ("json", "csv", "tsv")
RARE = 0.01  # a share of saturated rows that chance brings less often is no chance


@dataclass(frozen=True, slots=True, kw_only=True)
class NumericsOptions:
    """What was asked for; `shape` stands in for an input, `allow` are codes that do not fail."""

    choices: Choices = field(default_factory=Choices)
    dtype: str | None = None
    shape: str | None = None
    context: str | None = None
    weights: str | None = None
    text: str | None = None
    layers_shown: tuple[int, ...] | None = None
    saturated: float = BY_CHANCE
    allow: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class LayerReport:
    """What was found in one layer, and its output for the next."""

    hunt: Hunt
    saturation: Saturation
    gradients: Gradients
    findings: tuple[Finding, ...]
    output: Array


def check_numerics(
    source: str | None,
    options: NumericsOptions,
    *,
    stdin: BinaryIO | None = None,
    progress: Progress | None = None,
) -> NumericsResult:
    """Look for NaN and saturation in the input, or in standard normal q, k and v of `shape`.

    A model is looked at layer by layer. Raises InputError for what cannot be read, for an input and
    a shape together, and for neither.
    """
    _check(source, options)
    seed = options.choices.seed or 0
    if options.shape is not None:
        dump, choices = from_shape(options.shape, options.choices, seed)
        options = replace(options, choices=choices)
    else:
        assert source is not None
        dump = formats.read(source, stdin=stdin)
    if is_model(dump):
        return _of_model(dump, options, seed, progress)
    refuse_text(dump, options.text)
    checked("layer", "--layer", options.layers_shown, 1)
    reading = read_dump(
        dump, options.choices, context=options.context, weights=options.weights, stdin=stdin
    )
    dtype, why = _dtype(options, reading.summary)
    report = _look(reading.inputs, dtype, options, seed=seed, layer=0, progress=progress)
    said = (*reading.findings, *why)
    return _result(reading.summary, reading.settings, dtype, options, [report], said, (0,))


def _check(source: str | None, options: NumericsOptions) -> None:
    if source is None and options.shape is None:
        raise InputError(
            "no INPUT was given: expected a file of token vectors, of q, k and v, or a model",
            hint="or standard normal numbers: --shape 1,8,64,64",
        )
    if source is not None and options.shape is not None:
        raise InputError("INPUT and --shape were both given: expected one of them")
    if options.dtype is not None and options.dtype not in DTYPES:
        raise unknown_name("precision", options.dtype, DTYPES)
    if not 0 <= options.saturated <= 1:
        raise InputError(
            f"--saturated is {options.saturated:g}: expected a share of rows from 0 to 1"
        )


def _dtype(options: NumericsOptions, summary: InputSummary) -> tuple[str, list[Finding]]:
    """The precision to hunt in, and why it is this one."""
    own, chosen = summary.precision, options.dtype
    if chosen is not None and chosen != own:
        dtype, why = chosen, f"as --dtype says; the input is {own}"
    elif chosen is None and summary.format in TEXT:
        dtype, why = "float64", "numbers written as text have no precision: choose with --dtype"
    elif own in DTYPES:
        dtype, why = own, "the input's own"
    else:
        dtype = "float32" if own.startswith("float8") else "float64"
        why = f"attention is not computed in {own}: choose another with --dtype"
    said = [note("precision", f"looked for NaN in {dtype}: {why}")]
    if dtype in HALVES:
        words = f"products of {dtype} are summed in float32 and rounded once, as PyTorch does"
        said.append(note("arithmetic", f"{words}; every stage is rounded"))
    return dtype, said


def _look(
    inputs: AttentionInputs,
    dtype: str,
    options: NumericsOptions,
    *,
    seed: int,
    layer: int,
    progress: Progress | None,
) -> LayerReport:
    """One layer: the hunt, the figures of saturation, the gradients, and what they say."""
    from attn_cli.checks.numerics.torch_layer import look

    found, output, figures, back = look(
        inputs, dtype, compared=COMPARED, seed=seed, layer=layer, progress=progress
    )
    thresholds = _thresholds(options)
    findings = (
        *hunt_findings(found),
        *(_placed(finding, layer) for finding in hidden_findings(inputs)),
        *gradient_findings(back, found),
        *saturation_findings(figures, dtype, thresholds),
    )
    return LayerReport(found, figures, back, findings, output)


def _placed(finding: Finding, layer: int) -> Finding:
    return replace(finding, where=replace(finding.where, layer=layer))


def _thresholds(options: NumericsOptions) -> Thresholds:
    return Thresholds(options.saturated, SATURATED, RARE, options.allow)


def _of_model(
    dump: Dump, options: NumericsOptions, seed: int, progress: Progress | None
) -> NumericsResult:
    """Every layer of a model on a text, in one precision throughout."""
    refuse_files(context=options.context, weights=options.weights)
    reading = read_model(dump, options.choices, options.text)
    layers = reading.model.config.layers
    shown = checked("layer", "--layer", options.layers_shown, layers)
    dtype, why = _dtype(options, reading.summary)

    def attend(number: int, inputs: AttentionInputs) -> LayerReport:
        if progress is not None:
            progress(number, layers)
        return _look(inputs, dtype, options, seed=seed, layer=number, progress=None)

    reports: list[LayerReport] = []
    for passage, report in passages(
        reading.model, reading.words, dtype=dtype, attend=attend, output=_output, load=load_array
    ):
        broken = any(earlier.hunt.first is not None for earlier in reports)
        reports.append(_around(report, passage, dtype, broken=broken))
    said = (*reading.findings, *why)
    return _result(reading.summary, reading.settings, dtype, options, reports, said, shown)


def _output(report: LayerReport) -> Array:
    return report.output


def _around(report: LayerReport, passage: Passage, dtype: str, *, broken: bool) -> LayerReport:
    """The report with the steps around the layer's attention among its stages."""
    from attn_cli.checks.numerics.torch_culprit import carried, of_step

    hunt = report.hunt
    before = [_counted(step, dtype) for step in passage.before if step.stage != "x"]
    after = [_counted(step, dtype) for step in passage.after]
    whole = replace(hunt, stages=(*before, *hunt.stages, *after))
    first = whole.first
    if first is None:
        return replace(report, hunt=whole)
    if broken:
        whole = replace(whole, culprit=carried(first.stage, hunt.layer, dtype))
    elif whole.culprit is None or first.stage != whole.culprit.stage:
        steps = {step.stage: step.formula for step in (*passage.before, *passage.after)}
        whole = replace(whole, culprit=of_step(first, steps[first.stage], dtype))
    others = [finding for finding in report.findings if finding.code != "nonfinite"]
    said = (finding for finding in hunt_findings(whole) if finding.code == "nonfinite")
    return replace(report, hunt=whole, findings=(*said, *others))


def _counted(step: Step, dtype: str) -> StageCount:
    nan, bad = int(np.isnan(step.array).sum()), ~np.isfinite(step.array)
    words = ""
    if bad.any():
        _, token, feature = np.unravel_index(int(bad.argmax()), bad.shape)
        words = f"token {token}, feature {feature}"
    return StageCount(step.stage, nan, int(bad.sum()) - nan, step.array.size, words=words)


def _result(
    summary: InputSummary,
    settings: Any,
    dtype: str,
    options: NumericsOptions,
    reports: Sequence[LayerReport],
    said: Iterable[Finding],
    shown: tuple[int, ...],
) -> NumericsResult:
    findings = sorted(
        (*said, *(finding for report in reports for finding in report.findings)),
        key=lambda finding: -SEVERITIES.index(finding.severity),
    )
    return NumericsResult(
        input=summary,
        settings=settings,
        dtype=dtype,
        hunts=tuple(report.hunt for report in reports),
        saturations=tuple(report.saturation for report in reports),
        gradients=tuple(report.gradients for report in reports),
        findings=tuple(findings),
        failed=tuple(_failed(findings, options.allow)),
        thresholds=_thresholds(options),
        shown=shown,
    )


def _failed(findings: Iterable[Finding], allow: Sequence[str]) -> Iterator[str]:
    codes = {finding.code for finding in findings}
    return (code for code in FAILING if code in codes and code not in allow)
