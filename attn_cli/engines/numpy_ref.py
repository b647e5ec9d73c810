"""Engine `numpy`: the oracle. Reads like the formula, one step a line, on the CPU."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.around import Around
from attn_cli.core.engine import Ask, Capabilities
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.layer import Show
from attn_cli.core.recorder import Recorder
from attn_cli.core.rounding import round_to
from attn_cli.core.softmax import close, partial_rows
from attn_cli.core.statistics import Term
from attn_cli.core.trace import ALL_STAGES, Trace

Array = NDArray[Any]
Bools = NDArray[np.bool_]


class NumpyEngine:
    """softmax(q·kᵀ·scale, capped, biased, masked)·v by the formula (Vaswani et al. 2017, eq. 1).

    Hidden keys take no part: no NaN behind a mask reaches a row that does not see it. An empty row
    has weights 0 and context 0. In float16 and float32 sums are kept in float32 and every stage is
    rounded to the precision.
    """

    name = "numpy"
    can = Capabilities(
        stages=frozenset(ALL_STAGES),
        dtypes=("float64", "float32", "float16"),
        devices=("cpu",),
        gradients=False,
        copies=9,
    )

    def run(self, inputs: AttentionInputs, ask: Ask) -> Trace:
        recorder = Recorder(self.name, inputs, ask)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore", under="ignore"):
            for batch in range(inputs.shape[0]):
                _attend(inputs, ask, batch, recorder)
        return recorder.trace()


def _attend(inputs: AttentionInputs, ask: Ask, batch: int, recorder: Recorder) -> None:
    """One batch item, all heads at once."""
    around = Around(inputs, batch, recorder)
    visible, stage = around.visible, around.stage
    q, k, v = around.before()
    group = inputs.shape[1] // inputs.kv_heads
    k, v = k.repeat(group, 0), v.repeat(group, 0)  # (H, S, d_k), (H, S, d_v)
    masked = _scores_to_masked(inputs, batch, q, k, visible, stage)
    weights = _softmax(inputs, ask, batch, masked, visible, recorder, stage)
    around.after(weigh(weights, v, visible))


def _scores_to_masked(
    inputs: AttentionInputs, batch: int, q: Array, k: Array, visible: Bools | None, stage: Show
) -> Array:
    """scores → scaled → softcapped → biased → masked, each (H, L, S)."""
    scores = stage("scores", q @ k.mT)
    scores = stage("scaled", scores * scores.dtype.type(inputs.effective_scale))
    if inputs.softcap is not None:
        scores = inputs.softcap * np.tanh(scores / inputs.softcap)
    scores = stage("softcapped", scores)
    if inputs.has_bias:
        scores = scores + inputs.biased_by(batch).astype(scores.dtype)
    scores = stage("biased", scores)
    if inputs.additive is not None:
        scores = scores + inputs.added(batch).astype(scores.dtype)
    if visible is not None:
        scores = np.where(visible, scores, -np.inf)
    return stage("masked", scores)


def _softmax(
    inputs: AttentionInputs,
    ask: Ask,
    batch: int,
    masked: Array,
    visible: Bools | None,
    recorder: Recorder,
    stage: Show,
) -> Array:
    """weights (H, L, S) = softmax over the keys, and the finished rows."""
    terms: dict[str, Term] = {}
    for statistic in ask.stats:
        terms |= statistic.terms
    p, partial = partial_rows(
        masked,
        q_pos=np.asarray(inputs.query_positions).reshape(-1, 1),
        k_pos=np.arange(masked.shape[-1]),
        terms=terms,
        takes_part=visible,
        counted=inputs.counted(batch),
    )
    sinks = None
    if inputs.sinks is not None:
        sinks = round_to(inputs.sinks, ask.dtype).astype(masked.dtype)[:, None]
    rows, kept, total = close(partial, sinks=sinks, aligned=inputs.q_offset is not None)
    weights = p * kept[..., None] / total[..., None]
    if visible is not None:
        weights = np.where(visible, weights, 0)  # also in a row that is NaN
    weights = stage("weights", weights)
    rows = dataclasses.replace(rows, weight_sum=weights.sum(-1))
    recorder.finish(batch, rows, masked=masked, weights=weights, visible=visible)
    return weights


def weigh(weights: Array, v: Array, visible: Bools | None) -> Array:
    """weights (H, L, S) · v (H, S, d_v), without forming 0·NaN or 0·inf for hidden keys.

    A NaN or inf in the value of a key that a row sees reaches that row as the formula has it:
    NaN for NaN and for 0·inf, else ±inf.
    """
    finite = np.isfinite(v)
    if visible is None or finite.all():
        return weights @ v
    context = weights @ np.where(finite, v, 0)
    used, seen = (weights > 0).astype(v.dtype), visible.astype(v.dtype)
    plus, minus = used @ (v == np.inf), used @ (v == -np.inf)
    lost = seen @ np.isnan(v) + (seen - used) @ np.isinf(v)
    context = np.where(plus > 0, np.inf, np.where(minus > 0, -np.inf, context))
    nan_row = np.isnan(weights.sum(-1, keepdims=True))
    return np.where((lost > 0) | ((plus > 0) & (minus > 0)) | nan_row, np.nan, context)


ENGINE = NumpyEngine()
