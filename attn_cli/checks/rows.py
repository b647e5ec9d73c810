"""Findings about rows: sums that are not 1, empty, finitely filled, saturated and uniform rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.checks.places import count, first_place, rows_in_words
from attn_cli.core.engine import Seen
from attn_cli.core.findings import Finding, Severity
from attn_cli.core.inputs import FINITE_FILL, AttentionInputs
from attn_cli.core.rounding import accumulator, precision
from attn_cli.core.trace import Trace

Array = NDArray[Any]

SATURATED = 0.99  # a row that gives one of several keys more than this
BY_CHANCE = 0.05  # a share of rows up to this may be saturated or uniform by chance: a note
UNIFORM = 1e-5  # a row whose largest weight is within this share of 1 / visible keys


@dataclass(slots=True)
class EmptyWatch:
    """Watches weights and context go by: what stands in the rows that see no key.

    `values` maps the stage to "0", "NaN" or "other". Where an engine does not say what is visible,
    `rows` remembers of every item's context which rows (H, L) are 0 and which NaN, until `look`
    knows the empty ones.
    """

    values: dict[str, set[str]] = field(default_factory=dict)
    rows: dict[int, tuple[Array, Array]] = field(default_factory=dict)

    def __call__(self, stage: Seen) -> None:
        if stage.visible is not None and (empty := ~stage.visible.any(-1)).any():
            self._add(stage.stage, (stage.array[empty] == 0), np.isnan(stage.array[empty]))
        elif stage.visible is None and stage.stage == "context":
            self.rows[stage.batch] = (
                (stage.array == 0).all(-1),
                np.isnan(stage.array).all(-1),
            )

    def look(self, empty: NDArray[np.bool_]) -> None:
        """What stands in the rows of the context (B, H, L) that turned out to be empty."""
        for batch, (zero, nan) in self.rows.items():
            if empty[batch].any():
                self._add("context", zero[empty[batch]], nan[empty[batch]])

    def _add(self, stage: str, zero: Array, nan: Array) -> None:
        kind = "0" if zero.all() else "NaN" if nan.all() else "other"
        self.values.setdefault(stage, set()).add(kind)

    @property
    def nan(self) -> bool:
        return any("NaN" in kinds for kinds in self.values.values())

    @property
    def words(self) -> str:
        """`so weights, sum and output are 0 there`, of what was seen."""
        if not self.values:
            return ""
        what = "weights, sum and output are" if "weights" in self.values else "the output is"
        kinds = set().union(*self.values.values())
        value = kinds.pop() if len(kinds) == 1 and "other" not in kinds else "not 0"
        return f", so {what} {value} there"


def row_findings(inputs: AttentionInputs, trace: Trace, empty: EmptyWatch) -> Iterator[Finding]:
    """What the rows' statistics show; without sum, visible_keys and max_weight the empty ones."""
    yield from _empty(inputs, trace, empty)
    if not trace.stats:
        return
    yield from _sums(inputs, trace)
    yield from _finite_fill(inputs, trace)
    yield from _saturated(inputs, trace)
    yield from _uniform(inputs, trace)


def sum_tolerance(dtype: str, keys: int) -> float:
    """How far the sum of `keys` right weights may be from 1: rounded to `dtype`, then added up.

    Each weight is off by half an eps of itself (or half of the smallest number), and each of the
    `keys` additions by half an eps of the accumulator; doubled, since Z was summed the same way.
    """
    wide = float(np.finfo(accumulator(dtype)).eps)
    return 2 * precision(dtype).eps + keys * (wide + precision(dtype).smallest)


def _sums(inputs: AttentionInputs, trace: Trace) -> Iterator[Finding]:
    sums = trace.stats["sum"]
    live = ~trace.empty & np.isfinite(sums)
    if inputs.sinks is not None:
        if live.any():
            taken = np.maximum(1 - sums[live], 0.0)  # rounding takes nothing below 0
            yield Finding(
                "sinks",
                "note",
                f"rows sum below 1 by design: the sink takes {taken.mean():.4f} of the weight on "
                f"average, {taken.min():.4f} to {taken.max():.4f}",
            )
        return
    off = live & (np.abs(sums - 1) > sum_tolerance(trace.provenance.dtype, inputs.shape[3]))
    if off.any():
        worst = sums[off][np.abs(sums[off] - 1).argmax()]
        yield Finding(
            "row-sum",
            "error",
            f"{_rows_that(off, 'of weights does', 'of weights do')} not sum to 1 "
            f"(worst: {worst:.6f}): "
            f"{rows_in_words(off, inputs)}",
            first_place(off, "weights"),
        )


def _empty(inputs: AttentionInputs, trace: Trace, watch: EmptyWatch) -> Iterator[Finding]:
    if trace.empty.any():
        watch.look(trace.empty)
        yield Finding(
            "empty-row-nan" if watch.nan else "empty-row",
            "warning",
            f"{_rows_that(trace.empty, 'sees no key', 'see no key')}{watch.words}: "
            f"{rows_in_words(trace.empty, inputs)}",
            first_place(trace.empty, "masked"),
        )


def _finite_fill(inputs: AttentionInputs, trace: Trace) -> Iterator[Finding]:
    """Rows whose keys are all filled; what the fill comes to depends on precision and sink."""
    filled = (trace.stats["visible_keys"] == 0) & ~trace.empty
    if not filled.any():
        return
    sums, dtype = trace.stats["sum"], trace.provenance.dtype
    lost, given = filled & np.isnan(sums), filled & (sums == 0)  # a sink does not cancel
    equal = filled & _equal_weights(trace) & (_step(inputs, dtype) > 1e-3)
    plain = filled & ~(lost | given | equal)
    cancels = "which masks nothing: the constant cancels in the softmax"
    also = " (float32 would round the scores away)" if _step(inputs, "float32") > 1 else ""
    yield from _filled(plain, inputs, f"{cancels}{also}")
    away = f"{dtype} rounds the scores away, so that the weights are equal"
    yield from _filled(equal, inputs, f"{cancels}, and beside it {away}")
    yield from _filled(lost, inputs, f"which {dtype} cannot hold: the weights are NaN")
    yield from _filled(given, inputs, "and the sink takes all of the weight", "note")


def _filled(
    rows: Array, inputs: AttentionInputs, comes_to: str, severity: Severity = "warning"
) -> Iterator[Finding]:
    if rows.any():
        yield Finding(
            "finite-fill-row",
            severity,
            f"{_rows_that(rows, 'sees', 'see')} only keys filled with a large negative number "
            f"instead of −inf, {comes_to}: {rows_in_words(rows, inputs)}",
            first_place(rows, "masked"),
        )


def _equal_weights(trace: Trace) -> Array:
    """Where several keys share a row evenly, the rounding of the precision apart."""
    keys, tolerance = trace.stats["effective_keys"], 4 * precision(trace.provenance.dtype).eps
    with np.errstate(invalid="ignore"):
        even: Array = np.abs(trace.stats["max_weight"] * keys - 1) < UNIFORM + tolerance
    return even & (keys > 1.5)


def _step(inputs: AttentionInputs, dtype: str) -> float:
    """The spacing of a precision's numbers at the mildest fill: scores are rounded to it."""
    assert inputs.additive is not None
    fills = inputs.additive[np.isfinite(inputs.additive) & (inputs.additive <= FINITE_FILL)]
    return float(precision(dtype).ulp(fills.max()))


def _saturated(inputs: AttentionInputs, trace: Trace) -> Iterator[Finding]:
    largest, choice = trace.stats["max_weight"], _has_choice(inputs, trace)
    hit = choice & (largest > SATURATED)
    if not hit.any():
        return
    several = int(choice.sum())
    yield Finding(
        "saturated-row",
        _severity(hit, choice),
        f"{hit.sum():,} of {count(several, 'row')} with a choice "
        f"{'gives' if hit.sum() == 1 else 'give'} one key more than {SATURATED} of the weight: "
        f"{rows_in_words(hit, inputs)}",
        first_place(hit, "weights"),
    )


def _uniform(inputs: AttentionInputs, trace: Trace) -> Iterator[Finding]:
    visible, largest = trace.stats["visible_keys"], trace.stats["max_weight"]
    choice = _has_choice(inputs, trace)
    hit = choice & (np.abs(largest * visible - 1) < UNIFORM)
    if hit.any():
        yield Finding(
            "uniform-row",
            _severity(hit, choice),
            f"{_rows_that(hit, 'looks', 'look')} at every visible key alike (the scores do not "
            f"tell them apart): {rows_in_words(hit, inputs)}",
            first_place(hit, "weights"),
        )


def _has_choice(inputs: AttentionInputs, trace: Trace) -> Array:
    """(B, H, L): rows that see more than one key, those of padding left out."""
    choice: Array = trace.stats["visible_keys"] > 1
    if inputs.query_lengths is None:
        return choice
    real = np.arange(inputs.shape[2]) < np.array(inputs.query_lengths)[:, None]
    return choice & real[:, None]


def _severity(hit: Array, choice: Array) -> Severity:
    return "warning" if hit.sum() > BY_CHANCE * choice.sum() else "note"


def _rows_that(hit: Array, one: str, many: str) -> str:
    return f"{count(hit.sum(), 'row')} {one if hit.sum() == 1 else many}"
