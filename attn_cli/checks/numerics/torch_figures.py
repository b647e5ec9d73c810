"""Figures of saturation: what softmax does under several scales, in several precisions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attn_cli.checks.numerics.moments import (
    ScoreMoments,
    predicted_deviation,
    proportion,
    share,
)
from attn_cli.checks.numerics.torch_blocks import (
    Block,
    Way,
    attend,
    blocks,
    entering,
    given,
    pulled,
    rows_seen,
    to_float64,
)
from attn_cli.checks.rows import SATURATED
from attn_cli.core.draws import normal
from attn_cli.core.engine import Progress
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results_numerics import (
    Measured,
    PrecisionFigures,
    Saturation,
    ScaleFigures,
    Spread,
)
from attn_cli.core.rounding import precision

Array = NDArray[Any]

LEAST_FLOAT64 = -1075 * math.log(2)  # half of the smallest float64 has no float64
COTANGENT = 1  # the stream of the draws


def saturation(
    inputs: AttentionInputs,
    *,
    dtypes: tuple[str, ...],
    seed: int,
    layer: int = 0,
    progress: Progress | None = None,
) -> Saturation:
    """The figures of one layer: by the formula in float64, then in every precision.

    Each under the input's own scale, under 1/√d_k and under none.
    """
    rows = rows_seen(inputs)
    scales = _scales(inputs)
    total = len(scales) * (1 + len(dtypes))
    moments, by_scale, by_precision = None, [], []
    for number, scale in enumerate(scales):
        figures, moments = _by_formula(inputs, scale, rows, seed)
        by_scale.append(figures)
        for place, dtype in enumerate(dtypes):
            by_precision.append(_in_precision(inputs, Way(dtype=dtype, scale=scale), rows))
            if progress is not None:
                progress(number * (1 + len(dtypes)) + place + 2, total)
    assert moments is not None
    return Saturation(
        layer=layer,
        spreads=_spreads(inputs, moments),
        scales=tuple(by_scale),
        precisions=tuple(by_precision),
        rows_seen=len(rows) * inputs.shape[0] * inputs.shape[1],
        rows_total=math.prod(inputs.shape[:3]),
    )


def _scales(inputs: AttentionInputs) -> tuple[float, ...]:
    """The input's own scale first, then 1/√d_k and 1 where they are others."""
    root = 1 / math.sqrt(inputs.q.shape[-1])
    scales = [inputs.effective_scale]
    for other in (root, 1.0):
        if not any(math.isclose(other, scale) for scale in scales):
            scales.append(other)
    return tuple(scales)


def _label(inputs: AttentionInputs, scale: float) -> str:
    d_k = inputs.q.shape[-1]
    if scale == 1:
        return "no scale"
    return f"÷ √{d_k}" if math.isclose(scale, d_k**-0.5) else f"× {scale:.4g}"


def _parts(inputs: AttentionInputs, way: Way, rows: Array) -> Iterator[Block]:
    for batch in range(inputs.shape[0]):
        yield from blocks(inputs, batch, entering(given(inputs, batch, way.dtype)), way, rows)


def _choice(inputs: AttentionInputs, part: Block) -> Array:
    """(n,): rows that see more than one key and are no padding."""
    choice: Array = part.counted.sum(-1) > 1
    if inputs.query_lengths is not None:
        choice &= part.rows < inputs.query_lengths[part.batch]
    return choice


@dataclass(slots=True, eq=False)
class _Rows:
    """Numbers of rows, a list a block."""

    largest: list[Array] = field(default_factory=list)
    effective: list[Array] = field(default_factory=list)
    groups: list[Array] = field(default_factory=list)
    gradients: list[Array] = field(default_factory=list)


def _by_formula(
    inputs: AttentionInputs, scale: float, rows: Array, seed: int
) -> tuple[ScaleFigures, ScoreMoments]:
    """What softmax does under a scale in float64, and the moments of the unscaled scores."""
    way, got = Way(dtype="float64", scale=scale), _Rows()
    moments = ScoreMoments(_pivot(inputs))
    group = inputs.shape[1] // inputs.kv_heads
    for part in _parts(inputs, way, rows):
        kv = part.head // group
        moments.add(to_float64(part.stages["scores"]), part.seen, batch=part.batch, kv=kv)
        weights = to_float64(part.stages["weights"])
        keep = _choice(inputs, part) & np.isfinite(weights).all(-1)
        weights = weights[keep]
        got.largest.append(weights.max(-1, initial=0))
        got.effective.append(np.exp(_entropy(weights)))
        got.groups.append(np.full(len(weights), part.batch * inputs.kv_heads + kv))
        norms = _gradient_norms(inputs, part, way, seed)[keep]
        got.gradients.append(norms[np.isfinite(norms)])
    largest, effective, groups = map(np.concatenate, (got.largest, got.effective, got.groups))
    gradients = np.concatenate(got.gradients)
    figures = ScaleFigures(
        scale=scale,
        label=_label(inputs, scale),
        given=scale == inputs.effective_scale,
        rows=len(largest),
        saturated=proportion(largest > SATURATED, groups),
        largest_weight=share(largest, groups),
        effective_keys=share(effective, groups),
        gradient_mean=float(gradients.mean()) if gradients.size else math.nan,
        gradient_median=float(np.median(gradients)) if gradients.size else math.nan,
    )
    return figures, moments


def _entropy(weights: Array) -> Array:
    total = weights.sum(-1, keepdims=True)
    p = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    entropy: Array = -(p * np.log(np.where(p > 0, p, 1))).sum(-1)
    return entropy


def _gradient_norms(inputs: AttentionInputs, part: Block, way: Way, seed: int) -> Array:
    """(n,): |∂⟨u, context⟩/∂q| of every row, u a standard normal vector of its own."""
    q = part.q.clone().requires_grad_()
    again = attend(inputs, part.batch, part.head, part.rows, (q, part.k, part.v), way)
    context = again.stages["context"]
    stream = COTANGENT + int(
        np.ravel_multi_index((part.batch, part.head, int(part.rows[0])), inputs.shape[:3])
    )
    u = torch.tensor(normal(seed, stream, tuple(context.shape)))
    (gradient,) = pulled([context], [u], [q])
    assert gradient is not None
    return np.asarray(gradient.norm(dim=-1).numpy())


def _pivot(inputs: AttentionInputs) -> float:
    """About the mean of the scores: mean q · mean k, averaged over the heads."""
    group = inputs.shape[1] // inputs.kv_heads
    with np.errstate(all="ignore"):
        q, k = (array.astype(np.float64).mean(2) for array in (inputs.q, inputs.k))
        pivot = float((q * np.repeat(k, group, 1)).sum(-1).mean())
    return pivot if math.isfinite(pivot) else 0.0


def _spreads(inputs: AttentionInputs, moments: ScoreMoments) -> tuple[Spread, ...]:
    """The spread of the scores and of the scaled scores."""
    root = math.sqrt(inputs.q.shape[-1])
    group = inputs.shape[1] // inputs.kv_heads
    vectors = predicted_deviation(inputs.q, inputs.k, group)
    mean, deviation = moments.mean(), moments.deviation()
    return tuple(
        Spread(
            stage=stage,
            mean=Measured(mean.value * factor, mean.error * abs(factor)),
            deviation=Measured(deviation.value * abs(factor), deviation.error * abs(factor)),
            unit=root * abs(factor),
            vectors=vectors * abs(factor),
        )
        for stage, factor in (("scores", 1.0), ("scaled", inputs.effective_scale))
    )


@dataclass(slots=True)
class _Counts:
    """What a pass in one precision counts."""

    pairs: int = 0
    nonfinite: int = 0
    largest: float = 0.0
    rows: int = 0
    saturated: int = 0
    weights_above: int = 0
    vanished: int = 0
    naive_inf: int = 0
    naive_lost: int = 0
    stable_lost: int = 0


def _in_precision(inputs: AttentionInputs, way: Way, rows: Array) -> PrecisionFigures:
    """One pass under a scale in a precision, counted."""
    counts = _Counts()
    with torch.no_grad():
        for part in _parts(inputs, way, rows):
            _count(counts, inputs, part)
    kind, scale = precision(way.dtype), way.factor(inputs)
    return PrecisionFigures(
        scale=scale,
        label=_label(inputs, scale),
        given=scale == inputs.effective_scale,
        dtype=way.dtype,
        limit=kind.largest,
        vanishes_below=math.log(kind.smallest / 2) if kind.smallest > 5e-324 else LEAST_FLOAT64,
        naive_above=math.log(kind.largest),
        **{name: getattr(counts, name) for name in counts.__slots__},
    )


def _count(counts: _Counts, inputs: AttentionInputs, part: Block) -> None:
    """One block: its scores, its weights, and both softmaxes kept in the precision."""
    seen, masked = torch.tensor(part.counted), part.stages["masked"]
    scores = part.stages["scores"]
    finite = torch.isfinite(scores)
    counts.pairs += int(seen.sum())
    counts.nonfinite += int((seen & ~finite).sum())
    counts.largest = max(counts.largest, float(scores.abs().where(seen & finite, 0).max()))
    weights = part.stages["weights"]
    sound = torch.isfinite(weights).all(-1)
    some = seen.any(-1)
    counts.stable_lost += int((some & ~sound).sum())
    keep = torch.tensor(_choice(inputs, part)) & sound
    largest = weights.amax(-1)
    counts.rows += int(keep.sum())
    counts.saturated += int((keep & (largest > SATURATED)).sum())
    counts.weights_above += int((weights[keep] > SATURATED).sum())
    top = masked.where(seen, -math.inf).amax(-1, keepdim=True)
    shifted = torch.exp(masked - top)
    counts.vanished += int((seen & (shifted == 0)).sum())
    plain = torch.exp(masked).where(seen, 0)
    counts.naive_inf += int(torch.isinf(plain).sum())
    total = plain.sum(-1)  # rounded to the precision
    counts.naive_lost += int((some & ((total == 0) | ~torch.isfinite(total))).sum())
