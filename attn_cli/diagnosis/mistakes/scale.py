"""Mistakes in the scale: missing, twice, of the wrong size, or of what is added as well."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from attn_cli.diagnosis.formula import steps as right
from attn_cli.diagnosis.formula.work import Setting, Step, Work
from attn_cli.diagnosis.mistakes.base import Mistake, Variant, one, where
from attn_cli.diagnosis.plan import HEADED


def _by(factor: Callable[[Work], float]) -> Step:
    """Another factor than the right one."""

    def scale(work: Work) -> None:
        right.multiply(work, factor(work))

    return scale


def _unscaled_by_design(setting: Setting) -> bool:
    return setting.plan.intent.scale != 1.0


def _model_width(setting: Setting) -> bool:
    return setting.projected or (setting.heads or 1) > 1


def _several_heads(setting: Setting) -> bool:
    if setting.heads is None:
        return any(layout in HEADED for layout in setting.plan.call.layouts)
    return setting.heads > 1


def _d_model(work: Work) -> int:
    layer = work.setting.parameters.projections
    if layer is not None:
        return len(layer.w_q)
    return work.heads * work.d_k


def _inverse_root(number: float) -> float:
    return 1 / math.sqrt(number)


def _wrong_width(setting: Setting) -> Iterator[Variant]:
    """The width of the model over the heads, where a head has another width."""
    note = "d_model / heads"
    yield Variant(note, {"scale": _by(lambda w: _inverse_root(_d_model(w) / w.heads))})


def _by_keys(setting: Setting) -> Iterator[Variant]:
    notes = ("√(number of keys)", "√(number of queries)", "the number of keys")
    factors: tuple[Callable[[Work], float], ...] = (
        lambda work: _inverse_root(work.scores.shape[-1]),
        lambda work: _inverse_root(work.scores.shape[-2]),
        lambda work: 1 / float(work.scores.shape[-1]),
    )
    for note, factor in zip(notes, factors, strict=True):
        yield Variant(f"÷ {note}", {"scale": _by(factor)})


def _nothing(work: Work) -> None:
    """Not here."""


def _bias_first(which: str) -> Step:
    """Adds the bias before the scale; `which`: what is given, what positions make, or both."""

    def scale(work: Work) -> None:
        for array in _some(work, which):
            work.scores = work.scores + array
        right.scale(work)

    return scale


def _bias_rest(which: str) -> Step:
    def bias(work: Work) -> None:
        taken = _some(work, which)
        for array in right.biases(work):
            if not any(np.array_equal(array, other) for other in taken):
                work.scores = work.scores + array

    return bias


def _some(work: Work, which: str) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    arrays = right.biases(work)
    if which == "both" or len(arrays) < 2:
        return arrays
    return arrays[:1] if which == "given" else arrays[1:]


def _biased(setting: Setting) -> bool:
    bias = setting.mask is not None and setting.mask.means == "bias"
    return bias or setting.plan.intent.alibi


def _scaled_biases(setting: Setting) -> Iterator[Variant]:
    for which in ("both", "given", "made"):
        yield Variant("", {"scale": _bias_first(which), "bias": _bias_rest(which)})


SCALE_MISSING = Mistake(
    "scale_missing",
    "scale",
    "the scores are never divided by √d",
    "Without it scores grow with the width of a head, and softmax saturates.",
    "scores = q @ k.transpose(-2, -1) / math.sqrt(d)",
    "log-ratios of weights are √d times too large",
    where(_unscaled_by_design, one(scale=_nothing)),
)
SCALE_BY_DK = Mistake(
    "scale_by_dk",
    "scale",
    "the scores are divided by d, the square root is missing",
    "Scores of width-d vectors spread by √d; divided by d, attention is nearly uniform.",
    "divide by math.sqrt(d)",
    "one division by d in the source",
    one(scale=_by(lambda work: 1 / work.d_k)),
)
SCALE_APPLIED_TWICE = Mistake(
    "scale_applied_twice",
    "scale",
    "the scale is applied twice",
    "scaled_dot_product_attention scales by itself; with a q that is scaled already the factor is "
    "1/d.",
    "scale once: leave q as it is, or pass scale=1.0",
    "two places that scale in the source, the second one may be inside SDPA",
    one(scale=_by(lambda work: work.scale**2)),
    marks=r"scaled_dot_product_attention",
)
SCALE_INVERTED = Mistake(
    "scale_inverted",
    "scale",
    "the scores are multiplied by √d instead of divided",
    "d ** -0.5 is the factor; dividing by it multiplies by √d.",
    "multiply by d ** -0.5, or divide by d ** 0.5",
    "weights are nearly one-hot",
    one(scale=_by(lambda work: 1 / work.scale)),
)
SCALE_BY_D_MODEL = Mistake(
    "scale_by_d_model",
    "scale",
    "the scores are divided by √d_model instead of √(width of a head)",
    "The product runs over the width of one head; the model's width makes attention too uniform.",
    "divide by math.sqrt(d_model // heads)",
    "right with one head",
    where(_model_width, one(scale=_by(lambda work: _inverse_root(_d_model(work))))),
)
SCALE_BY_NUM_HEADS = Mistake(
    "scale_by_num_heads",
    "scale",
    "the scores are divided by √(number of heads)",
    "The number of heads says nothing of how far a product of width d spreads.",
    "divide by math.sqrt(width of a head)",
    "the factor does not change with the width",
    where(_several_heads, one(scale=_by(lambda work: _inverse_root(work.heads)))),
)
SCALE_BY_KEY_COUNT = Mistake(
    "scale_by_key_count",
    "scale",
    "the scores are divided by √(number of tokens)",
    "shape[-1] of the scores is the number of keys: the scale then changes with the length.",
    "divide by math.sqrt(q.shape[-1])",
    "right where the number of tokens happens to be d",
    _by_keys,
)
SCALE_WRONG_HEAD_DIM = Mistake(
    "scale_wrong_head_dim",
    "scale",
    "the scale uses d_model / heads although heads have a width of their own",
    "Where head_dim is set explicitly, q and k are that wide.",
    "scale by the head_dim that is in use",
    "right where head_dim is d_model / heads",
    where(_model_width, _wrong_width),
)
BIAS_SCALED_TOO = Mistake(
    "bias_scaled_too",
    "scale",
    "the bias is added before the scale and scaled with it",
    "A bias is meant in units of the scaled scores; divided by √d it is too weak.",
    "scores = q @ kᵀ * scale + bias",
    "adding ln 2 to the bias of a key does not double its odds",
    where(_biased, _scaled_biases),
)
