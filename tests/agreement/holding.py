"""Holding a candidate's trace against the float64 oracle, within bounds that are measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import torch

from attn_cli.core.budget import measure_budget
from attn_cli.core.compare import StageDiff, compare
from attn_cli.core.engine import Ask
from attn_cli.core.inputs import FINITE_FILL, Array, AttentionInputs
from attn_cli.core.rounding import PRECISIONS, accumulator, precision, round_to
from attn_cli.core.trace import ALL_STAGES, STAGES, Trace
from attn_cli.engines import ENGINES
from attn_cli.stats import STATISTICS
from benchmarks.false_alarms import expected

torch.set_num_threads(1)  # handing out small tensors costs more than computing them

# Engines that show every stage; those that show some are held in test_fused.py.
STEPWISE = [engine for engine in ENGINES if ENGINES[engine].can.stages == frozenset(ALL_STAGES)]
ENGINE_DTYPES = [
    (engine, dtype)
    for engine in STEPWISE
    for dtype in PRECISIONS
    if dtype in ENGINES[engine].can.dtypes
]
CPU_DTYPES = [
    (engine, dtype)
    for engine in ENGINES
    if {"cpu", "any"} & set(ENGINES[engine].can.devices)
    for dtype in ENGINES[engine].can.dtypes
]


def run(engine: str, inputs: AttentionInputs, dtype: str = "float64", *, top: int = 3) -> Trace:
    """Every stage and every statistic of one engine."""
    ask = Ask(
        keep=frozenset(STAGES),
        stats=[STATISTICS[name] for name in STATISTICS],
        top=top,
        cosine=True,
        dtype=dtype,
    )
    return ENGINES[engine].run(inputs, ask)


def fits(inputs: AttentionInputs, dtype: str) -> bool:
    """Whether every finite number of the input stays finite in `dtype`."""
    arrays = (inputs.q, inputs.k, inputs.v, inputs.additive, inputs.bias, inputs.sinks)
    return all(
        np.isfinite(round_to(array[np.isfinite(array)], dtype)).all()
        for array in arrays
        if array is not None
    )


def lse_of(trace: Trace) -> Array:
    """The lse of an engine that has one."""
    assert trace.lse is not None
    return trace.lse


class Oracle:
    """numpy in float64 on one input, and the measured budgets of every precision."""

    def __init__(self, inputs: AttentionInputs) -> None:
        self.inputs = inputs
        self.trace = run("numpy", inputs)
        self.stages = {name: self.trace[name] for name in STAGES}
        self._budgets: dict[str, dict[str, Array]] = {}

    def budget(self, dtype: str) -> dict[str, Array]:
        if dtype not in self._budgets:
            self._budgets[dtype] = measure_budget(self.inputs, self.stages, dtype=dtype)
        return self._budgets[dtype]

    def diffs(self, trace: Trace, dtype: str) -> dict[str, StageDiff]:
        """Every stage that `trace` holds against the oracle, with the engine's own empty rows."""
        found = {}
        for name in STAGES:
            right = expected(trace.engine, self.trace, name)
            if name in trace.stages and right is not None:
                budget = self.budget(dtype)[name]
                found[name] = compare(trace[name], right, budget=budget, dtype=dtype)
        return found


def assert_stages_agree(oracle: Oracle, trace: Trace, dtype: str) -> None:
    """No stage of `trace` differs from the oracle by more than rounding in `dtype`."""
    different = {
        name: diff
        for name, diff in oracle.diffs(trace, dtype).items()
        if diff.verdict == "different"
    }
    assert not different, f"{trace.engine} {dtype}: {different}"


def assert_statistics_agree(oracle: Oracle, trace: Trace, dtype: str) -> None:
    """Every statistic, and the lse if any, are where right code in `dtype` may put them."""
    bounds = statistic_bounds(oracle, dtype)
    rows = {**oracle.trace.stats, "lse": lse_of(oracle.trace)}
    assert set(rows) <= set(bounds), "a statistic has no bound here: derive one"
    np.testing.assert_array_equal(trace.empty, oracle.trace.empty)
    filled = (oracle.trace.stats["visible_keys"] == 0) & ~oracle.trace.empty
    for name, right in rows.items():
        came = trace.lse if name == "lse" else trace.stats[name]
        if came is None:
            continue  # an engine that has no lse
        # A row of nothing but finite fills is another row after rounding: −1e9 + s loses s.
        same_class = filled | (np.isnan(came) == np.isnan(right))
        assert same_class.all(), (
            f"{name}: NaN on one side at {np.argwhere(~same_class)[:3].tolist()}"
        )
        assert not np.isnan(bounds[name][~np.isnan(right)]).any(), f"{name} has no bound"
        with np.errstate(invalid="ignore"):
            off = ~filled & (np.abs(came - right) > bounds[name])
        assert not off.any(), (
            f"{name}: {came[off][:3]} for {right[off][:3]}, {bounds[name][off][:3]}"
        )


def statistic_bounds(oracle: Oracle, dtype: str) -> dict[str, Array]:
    """How far each statistic may be off, (B, H, L), if scores are off by δ and weights rounded.

    With |Δ(score)| ≤ δ a weight is off by the factor exp(±2δ), and by half an ulp once it is
    rounded, or by `tiny` where it is subnormal; sums over n keys add n eps of the accumulator.
    """
    trace, eps, tiny = oracle.trace, precision(dtype).eps, precision(dtype).smallest
    stats, keys = trace.stats, oracle.inputs.shape[3]
    shift = _score_error(oracle, dtype)
    with np.errstate(over="ignore", divide="ignore"):
        relative = np.expm1(2 * shift) + 2 * eps + keys * float(np.finfo(accumulator(dtype)).eps)
        log_z = -np.log(np.where(trace.empty, 1, stats["max_weight"]))
    far = np.where(np.isfinite(oracle.stages["masked"]), oracle.stages["masked"], np.nan)
    spread = np.nan_to_num(np.nanmax(far, -1, initial=0) - np.nanmin(far, -1, initial=0))
    entropy = 2 * shift + relative * (1 + 2 * log_z) + keys * tiny * spread
    steps = np.arange(oracle.inputs.shape[2] + keys).max() + abs(oracle.inputs.q_offset or 0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        effective = stats["effective_keys"] * np.expm1(entropy)
        normalized = entropy / np.log(stats["visible_keys"])
    return {
        "visible_keys": np.zeros_like(shift),
        "sum": relative + keys * tiny,
        "entropy": entropy,
        "effective_keys": effective,
        "normalized_entropy": normalized,
        "max_weight": relative * stats["max_weight"] + tiny,
        "mean_distance": (relative + keys * tiny) * steps,
        "first_key_weight": relative + tiny,
        "lse": shift
        + relative * (1 + log_z)
        + eps * np.abs(np.nan_to_num(lse_of(trace), neginf=0.0)),
    }


def _score_error(oracle: Oracle, dtype: str) -> Array:
    """(B, H, L): how far a score of a visible key may be off, sinks included."""
    masked = oracle.stages["masked"]
    sizes = np.abs(np.where(masked > FINITE_FILL, masked, 0)).max(-1)  # (B, H, L)
    sinks = oracle.inputs.sinks
    sink = np.zeros(oracle.inputs.shape[1]) if sinks is None else np.abs(sinks)
    largest = np.maximum(sizes, sink[:, None])
    return np.asarray(oracle.budget(dtype)["biased"][..., 0] + 2 * precision(dtype).ulp(largest))


def assert_same_classes(traces: Iterable[Trace]) -> None:
    """NaN, +inf and −inf sit in the same places of every stage and of every number a row."""
    first, *others = traces
    for other in others:
        named = [(name, first[name], other[name]) for name in STAGES]
        named += [(name, first.stats[name], other.stats[name]) for name in first.stats]
        for name, a, b in (*named, ("lse", lse_of(first), lse_of(other))):
            np.testing.assert_array_equal(_classes(a), _classes(b), err_msg=name)


def assert_same_classes_of_rows(right: Trace, came: Trace) -> None:
    """NaN, +inf and −inf sit in the same places of the context and of every number a row."""
    named = [(name, right.stats[name], came.stats[name]) for name in right.stats]
    named += [("context", right["context"], came["context"]), ("lse", lse_of(right), lse_of(came))]
    assert right.received is not None
    assert came.received is not None
    for name, a, b in (*named, ("received", right.received, came.received)):
        np.testing.assert_array_equal(_classes(a), _classes(b), err_msg=name)


def _classes(array: Array) -> Array:
    """0 finite, 1 NaN, 2 +inf, 3 −inf."""
    return np.select([np.isnan(array), np.isposinf(array), np.isneginf(array)], [1, 2, 3], 0)


def with_stage(trace: Trace, stage: str, change: Callable[[Array], Array]) -> Trace:
    """The trace with one stage changed and no other, though they may share memory."""
    stages = dict(trace.stages)
    stages[stage] = replace(stages[stage], array=change(stages[stage].array.copy()))
    return replace(trace, stages=stages)
