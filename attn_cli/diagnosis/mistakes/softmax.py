"""Mistakes in the softmax: over what, normalised by what, and how stably."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attn_cli.diagnosis.formula import steps as right
from attn_cli.diagnosis.formula.work import Array, Setting, Step, Work
from attn_cli.diagnosis.mistakes.base import Mistake, Variant, Variants, one, where

# Finite fills that people hide with: their effect shows where softmax is not over the keys.
FILLS = (-1e9, -1e4, float(np.finfo(np.float32).min), float(np.finfo(np.float64).min))


def _several_heads(setting: Setting) -> bool:
    return setting.heads is None or setting.heads > 1


def _over(*axes: int) -> Step:
    """Softmax over these axes of (B, H, L, S), by itself: a row of −inf alone is NaN."""

    def softmax(work: Work) -> None:
        e = np.exp(work.scores - work.scores.max(axes, keepdims=True))
        work.weights = e / e.sum(axes, keepdims=True)

    return softmax


def fills(setting: Setting) -> tuple[float, ...]:
    """The finite numbers that code of a setting may hide with: the usual ones, and its own."""
    if not (setting.hides or setting.own_mask):
        return ()
    own = [-abs(value) for value in setting.constants if abs(value) >= 100]
    return tuple(dict.fromkeys((*FILLS, *own)))


def finite(value: float) -> Step:
    """Hides with a number: what is hidden everywhere along an axis is then uniform, not NaN."""

    def hide(work: Work) -> None:
        for seen in (work.own, work.passed):
            if seen is not None:
                right.put(work, seen, value)

    return hide


def _with_fills(step: Step, note: str = "") -> Variants:
    """This softmax where hidden scores are −inf, or one of the usual large numbers."""

    def variants(setting: Setting) -> Iterator[Variant]:
        yield Variant(note, {"softmax": step})
        for value in fills(setting):
            yield Variant(note, {"softmax": step, "hide": finite(value)})

    return variants


def _added(value: float) -> Step:
    """Hides by adding a number, which leaves the scores in it."""

    def hide(work: Work) -> None:
        for seen in (work.own, work.passed):
            if seen is not None:
                shown = np.broadcast_to(seen, work.scores.shape)
                work.scores = work.scores + np.where(shown, 0, value).astype(work.scores.dtype)

    return hide


def _logs(setting: Setting) -> Iterator[Variant]:
    """Log-probabilities say what a hidden score is: filled in or added."""
    yield from _with_fills(_log)(setting)
    for value in fills(setting):
        yield Variant("", {"softmax": _log, "hide": _added(value)})


def _along(*axes: int, note: str = "") -> Variants:
    return _with_fills(_over(*axes), note)


def _everything(setting: Setting) -> Iterator[Variant]:
    yield from _along(2, 3, note="over queries and keys")(setting)
    yield from _along(1, 2, 3, note="over heads, queries and keys")(setting)
    yield from _along(0, 1, 2, 3, note="over the whole array")(setting)


def _normaliser(work: Work) -> None:
    """Σ without keepdims: it broadcasts along the last axis."""
    scores = work.as_code(work.scores)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    work.weights = work.from_code(e / work.arithmetic.total(e)[..., 0])
    if work.weights.shape != work.scores.shape:
        raise ValueError("axes")


def _other_row(work: Work) -> None:
    """Element (i, j) over the sum of row j, in whatever number of axes."""
    e = np.exp(work.scores - work.scores.max(-1, keepdims=True))
    work.weights = e / work.arithmetic.total(e)[..., None, :, 0]
    if work.weights.shape != work.scores.shape:
        raise ValueError("axes")


def _normalisers(setting: Setting) -> Iterator[Variant]:
    yield Variant("", {"softmax": _normaliser})
    yield Variant("in every map", {"softmax": _other_row})


def _exp_of(array: Array, shifted: bool) -> Array:
    return np.exp(array - array.max(-1, keepdims=True)) if shifted else np.exp(array)


def _plus_one(work: Work) -> None:
    e = _exp_of(work.scores, shifted=True)
    work.weights = e / (1 + work.arithmetic.total(e))


def _no_exponential(work: Work) -> None:
    scores = np.where(np.isneginf(work.scores), 0, work.scores)
    work.weights = scores / work.arithmetic.total(scores)


def _no_softmax(work: Work) -> None:
    work.weights = np.where(np.isneginf(work.scores), 0, work.scores)


def _relu(work: Work) -> None:
    scores = np.maximum(work.scores, 0)
    work.weights = scores / work.arithmetic.total(scores)


def _raw(work: Work) -> None:
    work.weights = work.scores / work.arithmetic.total(work.scores)


def _without(setting: Setting) -> Iterator[Variant]:
    yield Variant("scores ÷ their sum", {"softmax": _no_exponential})
    yield Variant("scores ÷ their sum, −inf among them", {"softmax": _raw})
    yield Variant("positive scores ÷ their sum", {"softmax": _relu})
    yield Variant("the scores themselves", {"softmax": _no_softmax})


def _log(work: Work) -> None:
    top = work.scores.max(-1, keepdims=True)
    shifted = work.scores - top
    work.weights = shifted - np.log(work.arithmetic.total(np.exp(shifted)))


def _unscaled(work: Work) -> None:
    """Not before softmax."""


def _scaled_weights(work: Work) -> None:
    work.weights = work.weights * work.weights.dtype.type(work.scale)
    right.late(work)


def _naive(work: Work) -> None:
    """exp of the scores as they are."""
    e = np.exp(work.scores)
    total = work.arithmetic.total(e)
    if (sink := right.sinks(work)) is not None:
        total = total + np.exp(sink)
    work.loose = np.isneginf(work.scores).all(-1)
    work.weights = e / total


def _naive_then_masked(work: Work) -> None:
    """exp of all scores, the hidden ones then multiplied by 0: inf · 0 is NaN."""
    hidden = np.zeros(work.scores.shape, bool)
    for seen in (work.own, work.passed):
        if seen is not None:
            hidden |= ~np.broadcast_to(seen, hidden.shape)
    e = np.exp(work.scores) * ~hidden
    work.loose = hidden.all(-1)
    work.weights = e / work.arithmetic.total(e)


def _naive_log(work: Work) -> None:
    """exp(score − ln Σ exp) with an Σ that overflows: every weight is 0."""
    total = work.arithmetic.total(np.exp(work.scores))
    work.loose = np.isneginf(work.scores).all(-1)
    work.weights = np.exp(work.scores - np.log(total))


def _not_hidden(work: Work) -> None:
    """The mask comes later."""


def _overflows(setting: Setting) -> Iterator[Variant]:
    yield Variant("", {"softmax": _naive})
    yield Variant("exp(score − ln Σ exp)", {"softmax": _naive_log})
    if setting.hides or setting.own_mask:
        steps: dict[str, Step] = {"softmax": _naive_then_masked, "hide": _not_hidden}
        yield Variant("exp · mask", steps)


SCALE_AFTER_SOFTMAX = Mistake(
    "scale_after_softmax",
    "softmax",
    "softmax first, the division by √d afterwards",
    "The scores are not scaled, and rows sum to 1/√d.",
    "scale the scores before softmax",
    "with constant values the output is v/√d",
    one(scale=_unscaled, late=_scaled_weights),
)
SOFTMAX_OVER_QUERIES = Mistake(
    "softmax_over_queries",
    "softmax",
    "softmax runs over the queries",
    "Columns of the map sum to 1, rows do not.",
    "softmax(dim=-1)",
    "a single query gives every key weight 1",
    _along(2),
)
SOFTMAX_OVER_HEADS = Mistake(
    "softmax_over_heads",
    "softmax",
    "softmax runs over the heads",
    "The heads compete for a key, instead of the keys for a query. softmax without dim takes axis "
    "1 of four.",
    "softmax(dim=-1), over the keys",
    "the weights of one (query, key) sum to 1 over the heads",
    where(_several_heads, _along(1)),
)
SOFTMAX_OVER_BATCH = Mistake(
    "softmax_over_batch",
    "softmax",
    "softmax runs over the items of the batch",
    "softmax without dim takes axis 0 of three.",
    "softmax(dim=-1), over the keys",
    "with a batch of 1 every weight is 1",
    _along(0),
)
SOFTMAX_OVER_EVERYTHING = Mistake(
    "softmax_over_everything",
    "softmax",
    "one softmax over the whole array",
    "All rows together sum to 1.",
    "one softmax for every row: over the last axis alone",
    "the sum of all weights is 1",
    _everything,
)
SOFTMAX_WRONG_NORMALISER = Mistake(
    "softmax_wrong_normaliser",
    "softmax",
    "the sum is taken without keepdims: element (i, j) is divided by the sum of row j",
    "A vector of row sums broadcasts along the last axis, where the keys are.",
    "sum(axis=-1, keepdims=True)",
    "it fails where there are other numbers of queries and keys",
    _normalisers,
)
SOFTMAX_PLUS_ONE = Mistake(
    "softmax_plus_one",
    "softmax",
    "1 is added to the denominator after the maximum was subtracted",
    "Rows sum to less than 1, by how much depends on their maximum. (Softmax off by one would add "
    "exp(−max).)",
    "plain softmax, or exp(−max) instead of 1",
    "a row's sum changes when the same number is added to all its scores before the shift",
    one(softmax=_plus_one),
)
SOFTMAX_MISSING = Mistake(
    "softmax_missing",
    "softmax",
    "the scores are used as weights without an exponential",
    "Weights can be negative, and are unbounded where the sum is near 0.",
    "softmax(scores, dim=-1)",
    "negative weights",
    _without,
)
LOG_SOFTMAX_WEIGHTS = Mistake(
    "log_softmax_weights",
    "softmax",
    "log-probabilities are used as weights",
    "They are negative and do not sum to 1.",
    "softmax instead of log_softmax, or exp of it",
    "exp of the weights sums to 1",
    _logs,
)
SOFTMAX_OVERFLOW = Mistake(
    "softmax_overflow",
    "softmax",
    "exp of the scores as they are, no maximum subtracted",
    "exp overflows above 88 in float32 (709 in float64), and inf/inf is NaN.",
    "subtract the row's maximum first, or use softmax",
    "right on ordinary scores, NaN on large ones",
    _overflows,
    boundary=True,
)
