"""Mistakes in weights · v, and in what is given back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attn_cli.diagnosis.formula import steps as right
from attn_cli.diagnosis.formula.work import Setting, Step, Work
from attn_cli.diagnosis.mistakes.base import Mistake, Variant, one, where
from attn_cli.diagnosis.mistakes.softmax import fills, finite


def _keys(work: Work) -> None:
    work.context = work.arithmetic.matmul(work.weights, work.k)


def _unturned_keys(work: Work) -> None:
    """k before its rotation."""
    right.split(work)
    right.group(work)
    work.context = work.arithmetic.matmul(work.weights, work.k)


def _as_values(setting: Setting) -> Iterator[Variant]:
    yield Variant("", {"mix": _keys})
    if setting.plan.intent.rope is not None:
        yield Variant("before their rotation", {"mix": _unturned_keys})


def _turned(work: Work) -> None:
    work.context = work.arithmetic.matmul(work.weights.swapaxes(-2, -1), work.v)


def _separate_sums(work: Work) -> None:
    work.context = work.arithmetic.total(work.weights) * work.arithmetic.total(work.v, axis=-2)


def _whole(work: Work) -> None:
    """Written into an array of whole numbers where the input has such."""
    if all(np.array_equal(array, np.round(array)) for array in work.question.given.values()):
        work.output = np.trunc(work.output)


def _integers(setting: Setting) -> bool:
    return setting.plan.call.lib == "numpy" and not setting.projected


def _giving(stage: str, fill: float | None = None) -> dict[str, Step]:
    """Gives back a stage of the scores where weights are expected; hidden ones are `fill`."""
    make = right.STEPS[stage] if fill is None else finite(fill)

    def keep(work: Work) -> None:
        make(work)
        work.returned = work.scores

    def late(work: Work) -> None:
        """The weights are used, and not given back."""

    return {stage: keep, "late": late}


def _scores_back(setting: Setting) -> Iterator[Variant]:
    words = {"hide": "masked scores", "bias": "scores before masking", "scores": "raw scores"}
    for stage, note in words.items():
        yield Variant(note, _giving(stage))
    for value in fills(setting):
        yield Variant(f"masked scores, {value:g} where hidden", _giving("hide", value))


def _returns_weights(setting: Setting) -> bool:
    return any(name.startswith("weights") for name in setting.plan.call.returns)


KEYS_USED_AS_VALUES = Mistake(
    "keys_used_as_values",
    "mix",
    "the weights multiply the keys instead of the values",
    "v has no influence at all.",
    "weights @ v",
    "changing v moves nothing",
    _as_values,
)
WEIGHTS_TRANSPOSED = Mistake(
    "weights_transposed",
    "mix",
    "the transposed map multiplies the values",
    "Columns of the map do not sum to 1: the output is no mean of values.",
    "weights @ v",
    "with constant values the output is not constant",
    one(mix=_turned),
)
EINSUM_INDEX_NOT_SHARED = Mistake(
    "einsum_index_not_shared",
    "mix",
    "the key index of the map and of the values have different letters",
    "einsum then sums both by themselves: every row is the plain sum of all values.",
    "the same letter for the keys on both sides: 'bhij,bhjd->bhid'",
    "all rows of the output are equal",
    one(mix=_separate_sums),
)
INTEGER_TRUNCATION = Mistake(
    "integer_truncation",
    "mix",
    "the result is written into an array of whole numbers",
    "np.zeros(…, dtype=v.dtype) is an array of int where v is; every number is cut.",
    "give the result a float dtype",
    "right for float input",
    where(_integers, one(result=_whole)),
)
RETURNS_SCORES_AS_WEIGHTS = Mistake(
    "returns_scores_as_weights",
    "interface",
    "what is returned as weights are scores",
    "The output is right; whoever looks at the map sees numbers that do not sum to 1.",
    "return the result of softmax",
    "the returned map has negative numbers or −inf",
    where(_returns_weights, _scores_back),
)
