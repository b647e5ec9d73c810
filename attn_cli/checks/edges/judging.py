"""Judging: holds one subject's answer to a case against what is right."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.checks.edges.case import Answer, Case, Subject
from attn_cli.checks.edges.right import Right
from attn_cli.core.compare import compare
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results_edges import Judgement, Mismatch
from attn_cli.core.rounding import accumulator, precision
from attn_cli.errors import UnsupportedError

Array = NDArray[Any]
EMPTY = "a row that sees no key gives 0"
GIVEN = ("q", "k", "v", "additive", "bias", "sinks")
AXES = {
    "output": ("batch", "head", "query", "d_v"),
    "weights": ("batch", "head", "query", "key"),
    "row sums": ("batch", "head", "query"),
}


class Refused(Exception):
    """What a subject gave cannot be held against anything; the message says why."""


def judge(case: Case, subject: Subject, right: Right) -> Judgement:
    """Passed, failed or not supported, and why. Whatever the subject raises is a failure.

    The numbers of the case are as before when it is done, whatever the subject does to them.
    """
    before = _given(case.inputs)
    try:
        answer = _answered(case, subject)
        output, weights = _arrays(answer, case.inputs)
    except UnsupportedError as error:
        return Judgement("unsupported", error.message)
    except Refused as error:
        return Judgement("failed", str(error))
    except (Exception, SystemExit) as error:  # somebody's code may raise anything
        return Judgement("failed", f"it raised {_raised(error)}")
    finally:
        changed = _restored(case.inputs, before)
    if changed:
        return Judgement(
            "failed", f"it changed {' and '.join(changed)}, which it was given to read"
        )
    mismatch = next(_mismatches(case, right, output, weights), None)
    if mismatch is None:
        return Judgement("passed", "", output=output)
    return Judgement("failed", "", mismatch=mismatch, output=output)


def _answered(case: Case, subject: Subject) -> Answer:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # overflow and NaN are what these cases are made of
        return subject.attend(case.inputs, case.dtype)


def _raised(error: BaseException) -> str:
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _given(inputs: AttentionInputs) -> dict[str, Array]:
    arrays = {name: getattr(inputs, name) for name in GIVEN}
    return {name: array.copy() for name, array in arrays.items() if array is not None}


def _restored(inputs: AttentionInputs, before: dict[str, Array]) -> list[str]:
    """The names of arrays that were changed, after their numbers have been put back."""
    changed = []
    for name, numbers in before.items():
        array = getattr(inputs, name)
        if not np.array_equal(array, numbers, equal_nan=True):
            array[...] = numbers
            changed.append(name)
    return changed


def _arrays(answer: Answer, inputs: AttentionInputs) -> tuple[Array, Array | None]:
    """Output and weights as float64; Refused where they are no numbers or of another shape."""
    batch, heads, queries, keys = inputs.shape
    output = _numbers("output", answer.output, (batch, heads, queries, inputs.v.shape[-1]))
    if answer.weights is None:
        return output, None
    return output, _numbers("weights", answer.weights, (batch, heads, queries, keys))


def _numbers(name: str, given: object, shape: tuple[int, ...]) -> Array:
    array = np.asarray(given)
    if array.dtype.kind not in "fiu":
        raise Refused(f"its {name} is {array.dtype}: expected real numbers")
    if array.shape != shape:
        axes = ", ".join(AXES[name])
        raise Refused(f"its {name} has shape {array.shape}: expected {shape}, ({axes})")
    return array.astype(np.float64)


def _mismatches(
    case: Case, right: Right, output: Array, weights: Array | None
) -> Iterator[Mismatch]:
    """What is wrong, the earliest stage first; of each the worst place."""
    if weights is not None:
        yield from _hidden_weights(right, weights)
        yield from _row_sums(case, right, weights)
        shown = np.where(right.visible, weights, right.weights)  # hidden keys are judged already
        yield from _compared(case, "weights", shown, right.weights, _budgets(right, "weights"))
    empty = np.broadcast_to(right.empty[..., None], output.shape)
    wrong = empty & (output != 0)  # NaN is not 0 either
    yield from _all_zero("output", output, wrong, EMPTY)
    yield from _compared(case, "output", output, right.output, _budgets(right, "context"))


def _budgets(right: Right, stage: str) -> Iterator[Array]:
    """What right code may be off, at least; then as it is measured, which takes a while."""
    yield right.least[stage]
    yield right.budget[stage]


def _hidden_weights(right: Right, weights: Array) -> Iterator[Mismatch]:
    """Hidden keys get exactly 0, but for rows that are NaN by the formula."""
    empty = np.broadcast_to(right.empty[..., None], weights.shape)
    yield from _all_zero("weights", weights, empty & (weights != 0), EMPTY)
    lost = np.isnan(right.weights).any(-1, keepdims=True)
    wrong = ~right.visible & ~lost & (weights != 0)
    yield from _all_zero("weights", weights, wrong, "a hidden key gets exactly 0")


def _all_zero(stage: str, array: Array, wrong: NDArray[np.bool_], words: str) -> Iterator[Mismatch]:
    if wrong.any():
        size = np.where(wrong, np.nan_to_num(np.abs(array), nan=np.inf, posinf=np.inf), -1)
        where = tuple(int(i) for i in np.unravel_index(size.argmax(), array.shape))
        yield Mismatch(
            stage,
            AXES[stage],
            where,
            0.0,
            float(array[where]),
            0.0,
            int(wrong.sum()),
            wrong.size,
            words,
        )


def _row_sums(case: Case, right: Right, weights: Array) -> Iterator[Mismatch]:
    """Rows sum to 1, to less where there is a sink, as far as each weight may be off."""
    expected = np.where(right.empty, 0.0, 1.0)
    if case.inputs.sinks is not None:
        expected = right.weights.sum(-1)
    expected = np.where(np.isnan(right.weights).any(-1), np.nan, expected)
    keys = weights.shape[-1]
    rounding = keys * float(np.finfo(accumulator(case.dtype)).eps) + precision(case.dtype).eps
    allowed = (
        np.broadcast_to(budget, weights.shape).sum(-1) + rounding
        for budget in _budgets(right, "weights")
    )
    yield from _compared(case, "row sums", weights.sum(-1), expected, allowed)


def _compared(
    case: Case, stage: str, got: Array, expected: Array, budgets: Iterator[Array]
) -> Iterator[Mismatch]:
    """The worst element beyond every budget; the last one is the one that counts."""
    for budget in budgets:
        diff = compare(got, expected, budget=budget, dtype=case.dtype)
        if diff.verdict != "different":
            return
    at = diff.where
    yield Mismatch(
        stage,
        AXES[stage],
        at,
        float(expected[at]),
        float(got[at]),
        diff.budget,
        diff.beyond,
        got.size,
    )
