"""Mistakes in the product q · kᵀ: which axes, which pairs, which precision."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attn_cli.core.rounding import round_to
from attn_cli.diagnosis.formula import steps as right
from attn_cli.diagnosis.formula.work import Array, Setting, Step, Work
from attn_cli.diagnosis.mistakes.base import Mistake, Variant, one, where
from attn_cli.diagnosis.mistakes.split import merge_as_it_lies


def _has_batch(setting: Setting) -> bool:
    return any(layout not in ("LD", "HLD") for layout in setting.plan.call.layouts)


def _seq_first(work: Work) -> None:
    """Batch and tokens exchanged: the items of one place attend to each other."""
    right.sources(work)
    if work.x_q.shape[:2] != work.x_k.shape[:2] or work.x_q.ndim != 3:
        raise ValueError("axes")
    work.x_q, work.x_k, work.x_v = (
        array.swapaxes(0, 1) for array in (work.x_q, work.x_k, work.x_v)
    )


def _seq_back(work: Work) -> None:
    right.out(work)
    axes = (1, 0, 2) if work.output.ndim == 3 else (2, 1, 0, 3)
    work.output = work.output.transpose(axes)
    work.returned = work.loose = None


def _own_over_batch(work: Work) -> None:
    """A causal mask over the items, as SDPA makes it for whatever axis it is given."""
    if work.setting.plan.intent.causal:
        batch = work.question.shape[0]
        work.own = np.tril(np.ones((batch, batch), bool))[None, None]


def _own_over_heads(work: Work) -> None:
    if work.setting.plan.intent.causal:
        work.own = np.tril(np.ones((work.heads, work.heads), bool))[None, None]


def _nothing(work: Work) -> None:
    """No mask."""


def _over_batch(setting: Setting) -> Iterator[Variant]:
    steps: dict[str, Step] = {"sources": _seq_first, "out": _seq_back, "own": _nothing}
    yield Variant("the items of a batch attend to each other", steps)
    yield Variant("", {"sources": _seq_first, "out": _seq_back})
    if setting.plan.intent.causal:
        yield Variant("causally", {**steps, "own": _own_over_batch})


def _heads_for_tokens(work: Work) -> None:
    right.group(work)
    work.q, work.k, work.v = (a.swapaxes(1, 2) for a in (work.q, work.k, work.v))


def _context_back(work: Work) -> None:
    right.mix(work)
    work.context, work.returned = work.context.swapaxes(1, 2), None
    work.loose = None


def _over_heads(setting: Setting) -> Iterator[Variant]:
    steps: dict[str, Step] = {"group": _heads_for_tokens, "mix": _context_back, "own": _nothing}
    yield Variant("the heads of one token attend to each other", steps)
    yield Variant("and are then transposed once more", {**steps, "merge": merge_as_it_lies})
    if setting.plan.intent.causal:
        yield Variant("causally", {**steps, "own": _own_over_heads})


def _features(work: Work) -> None:
    work.scores = work.arithmetic.matmul(work.q.swapaxes(-2, -1), work.k)


def _mix_features(turned: bool) -> Step:
    def mix(work: Work) -> None:
        weights = work.weights.swapaxes(-2, -1) if turned else work.weights
        work.context = work.arithmetic.matmul(work.v, weights)
        work.returned = work.loose = None

    return mix


def _over_features(setting: Setting) -> Iterator[Variant]:
    for turned in (True, False):
        note = "v · wᵀ" if turned else "v · w"
        yield Variant(note, {"scores": _features, "mix": _mix_features(turned), "own": _nothing})


def _exchanged(work: Work) -> None:
    work.scores = work.arithmetic.matmul(work.k, work.q.swapaxes(-2, -1))


def _reshaped(work: Work) -> None:
    turned = work.k.reshape(*work.k.shape[:2], work.k.shape[3], work.k.shape[2])
    work.scores = work.arithmetic.matmul(work.q, turned)


def _all_axes(work: Work) -> None:
    q, k = work.as_code(work.q), work.as_code(work.k)
    work.scores = work.from_code(work.arithmetic.matmul(q, k.T))


def _skip_last(work: Work) -> None:
    right.own(work)
    L, S = work.lengths
    seen = np.ones((1, 1, L, S), bool) if work.own is None else work.own.copy()
    seen[..., -1] = False
    work.own = seen


def _skip_first(work: Work) -> None:
    right.own(work)
    L, S = work.lengths
    seen = np.ones((1, 1, L, S), bool) if work.own is None else work.own.copy()
    seen[..., 0] = False
    work.own = seen


def _skips(setting: Setting) -> Iterator[Variant]:
    yield Variant("the last key is never seen", {"own": _skip_last})
    yield Variant("the first key is never seen", {"own": _skip_first})


def _narrow(work: Work, array: Array, dtype: str) -> Array:
    """Rounded to float16 or bfloat16, to a neighbour in runs of drawn order."""
    if dtype == "float16":
        return work.arithmetic.nudged(array, "float16")
    values = array.astype(np.float64)
    if (rng := work.arithmetic.rng) is not None:
        values = values * (1 + rng.uniform(-0.6, 0.6, array.shape) * 2.0**-7)
    return round_to(values, "bfloat16").astype(array.dtype)


def _half(dtype: str, *, scaled_first: bool = False, weights: bool = False) -> dict[str, Step]:
    """The product in half precision, and with `weights` all that follows."""

    def scores(work: Work) -> None:
        q = work.q * work.q.dtype.type(work.scale) if scaled_first else work.q
        q, k = _narrow(work, q, dtype), _narrow(work, work.k, dtype)
        work.scores = _narrow(work, work.arithmetic.matmul(q, k.swapaxes(-2, -1)), dtype)

    def scale(work: Work) -> None:
        if not scaled_first:
            right.scale(work)
        if weights:
            work.scores = _narrow(work, work.scores, dtype)

    def late(work: Work) -> None:
        right.late(work)
        work.weights = work.returned = _narrow(work, work.weights, dtype)

    steps: dict[str, Step] = {"scores": scores, "scale": scale}
    return {**steps, "late": late} if weights else steps


def _halves(setting: Setting) -> Iterator[Variant]:
    for dtype in ("float16", "bfloat16"):
        yield Variant(f"q · kᵀ in {dtype}", _half(dtype))
        yield Variant(f"q · kᵀ in {dtype}, q scaled before", _half(dtype, scaled_first=True))
        yield Variant(f"scores and weights in {dtype}", _half(dtype, weights=True))


ATTENDS_OVER_BATCH = Mistake(
    "attends_over_batch",
    "scores",
    "(batch, tokens, width) meets code that takes (tokens, batch, width)",
    "nn.MultiheadAttention without batch_first attends along the first axis: items of a batch see "
    "each other, the tokens of one item do not.",
    "batch_first=True, or transpose before and after",
    "an item's result changes with the other items of its batch",
    where(_has_batch, _over_batch),
)
ATTENDS_OVER_HEADS = Mistake(
    "attends_over_heads",
    "scores",
    "q, k and v are (B, T, heads, width) where (B, heads, T, width) is expected",
    "The heads of one token attend to each other, and no token sees another.",
    "transpose(1, 2) before the product, and back after it",
    "changing one token moves no other row",
    _over_heads,
)
ATTENDS_OVER_FEATURES = Mistake(
    "attends_over_features",
    "scores",
    "qᵀ · k: a map of features by features instead of tokens by tokens",
    "The map is (width, width) and does not grow with the sequence.",
    "q @ k.transpose(-2, -1)",
    "the map's size does not depend on the number of tokens",
    _over_features,
)
QUERY_KEY_SWAPPED = Mistake(
    "query_key_swapped",
    "scores",
    "k · qᵀ: row i belongs to key i",
    "The scores are transposed: softmax then runs over the queries that look at a key.",
    "q @ k.transpose(-2, -1)",
    "the product is taken the wrong way round, rather than a packed matrix cut in the wrong order",
    one(scores=_exchanged),
)
KEY_RESHAPED_NOT_TRANSPOSED = Mistake(
    "key_reshaped_not_transposed",
    "scores",
    "k is reshaped to (width, keys) instead of transposed",
    "A reshape keeps the order of the numbers: a column then holds pieces of several keys.",
    "k.transpose(-2, -1)",
    "permuting the keys and values changes the output",
    one(scores=_reshaped),
)
KEY_TRANSPOSED_ALL_AXES = Mistake(
    "key_transposed_all_axes",
    "scores",
    "k.T turns all axes of a batch round",
    "Of an array with a batch, .T reverses every axis; it fails unless sizes happen to be equal.",
    "k.transpose(-2, -1), k.mT, or np.swapaxes(k, -1, -2)",
    "it runs only where batch, tokens and width are equal",
    where(_has_batch, one(scores=_all_axes)),
)
LOOP_SKIPS_LAST_KEY = Mistake(
    "loop_skips_last_key",
    "scores",
    "the loop over the keys stops one short",
    "One key, and its value, has no influence on any row.",
    "for j in range(n_keys)",
    "changing one key moves nothing, at every length",
    _skips,
)
HALF_PRECISION_SCORES = Mistake(
    "half_precision_scores",
    "scores",
    "q · kᵀ is computed in half precision",
    "Above 65504 it is inf, and then NaN; below it is off by one part in a thousand.",
    "keep the scores in float32, or scale q before the product",
    "errors of 1e-3 everywhere, NaN where scores are large",
    _halves,
    alone=True,
)
