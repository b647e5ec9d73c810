"""Engine `torch`: the same steps in PyTorch, as independent code; differentiable, any device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attn_cli.core.engine import Ask, Capabilities
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.layer import Origin, Projections
from attn_cli.core.recorder import Recorder
from attn_cli.core.statistics import RowSums, Statistic
from attn_cli.core.trace import ALL_STAGES, Trace
from attn_cli.torch_arrays import to_numpy, to_tensor, usable_device

INF = float("inf")


class TorchEngine:
    """Attention by PyTorch operations in the precision asked for, one batch item at a time.

    Results in float16 and bfloat16 are what PyTorch rounds each operation to. Hidden keys take no
    part and an empty row has weights 0 and context 0, in the gradient too.
    """

    name = "torch"
    can = Capabilities(
        stages=frozenset(ALL_STAGES),
        dtypes=("float64", "float32", "float16", "bfloat16"),
        devices=("any",),
        gradients=True,
        copies=15,
    )

    def run(self, inputs: AttentionInputs, ask: Ask) -> Trace:
        dtype, device = getattr(torch, ask.dtype), usable_device(ask.device, ask.dtype)
        recorder = Recorder(self.name, inputs, ask)
        with torch.no_grad():
            for batch in range(inputs.shape[0]):
                _attend(inputs, ask, batch, recorder, dtype, device)
        return recorder.trace()


def attention_stages(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    visible: Tensor | None = None,
    additive: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> dict[str, Tensor]:
    """Every stage of softmax(q·kᵀ·scale, capped, biased, masked)·v, differentiable.

    q (..., H, L, d_k), k (..., Hkv, S, d_k), v (..., Hkv, S, d_v); `visible` (True = may attend),
    `additive` and `bias` broadcast to (..., H, L, S), `sinks` (H,). An empty row gives 0.
    """
    group = q.shape[-3] // k.shape[-3]
    k, v = k.repeat_interleave(group, -3), v.repeat_interleave(group, -3)
    stages = {"scores": _scores(q, k, visible)}
    stages["scaled"] = stages["scores"] * (q.shape[-1] ** -0.5 if scale is None else scale)
    stages["softcapped"] = _softcap(stages["scaled"], softcap)
    stages["biased"] = stages["softcapped"] if bias is None else stages["softcapped"] + bias
    stages["masked"] = _mask(stages["biased"], visible, additive)
    stages["weights"] = softmax(stages["masked"], visible, sinks)
    stages["context"] = _weigh(stages["weights"], v, visible)
    return stages


def _scores(q: Tensor, k: Tensor, visible: Tensor | None) -> Tensor:
    """q · kᵀ; NaN or inf in a query or key reaches only the gradients of those that see it.

    The product's own gradients form 0·k for hidden keys and 0·q for queries that see nothing, and
    0·NaN is NaN.
    """
    differentiated = q.requires_grad or k.requires_grad
    if visible is None or not differentiated or (_finite(q) and _finite(k)):
        return q @ k.mT
    scores: Tensor = _SeenProduct.apply(q, k, visible)  # type: ignore[no-untyped-call]
    return scores


class _SeenProduct(torch.autograd.Function):
    """q · kᵀ, whose gradients are summed over the visible pairs alone."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, visible: Tensor) -> Tensor:
        scores = q @ k.mT
        ctx.save_for_backward(q, k, visible.expand(scores.shape))
        return scores

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        q, k, visible = ctx.saved_tensors
        of_q = _weigh(gradient, k, visible)
        return of_q, _weigh(gradient.mT, q, visible.mT), None


def _softcap(scaled: Tensor, cap: float | None) -> Tensor:
    return scaled if cap is None else torch.tanh(scaled / cap) * cap


def _mask(biased: Tensor, visible: Tensor | None, additive: Tensor | None) -> Tensor:
    masked = biased if additive is None else biased + additive
    return masked if visible is None else masked.masked_fill(~visible, -INF)


def softmax(masked: Tensor, visible: Tensor | None, sinks: Tensor | None) -> Tensor:
    """Softmax over the keys (..., L, S), sinks in the denominator; 0 in empty rows, never NaN."""
    if visible is not None:
        empty = ~visible.any(-1, keepdim=True)
        masked = masked.masked_fill(empty, 0.0)  # a row of −inf has no gradient but NaN
    if sinks is None:
        weights = torch.softmax(masked, -1)
    else:
        sink = sinks[:, None, None].expand(*masked.shape[:-1], 1).to(masked.dtype)
        weights = torch.softmax(torch.cat([masked, sink], -1), -1)[..., :-1]
    return weights if visible is None else weights.masked_fill(~visible, 0.0)


def _weigh(weights: Tensor, v: Tensor, visible: Tensor | None) -> Tensor:
    """weights · v; a NaN or inf in a value reaches only the rows that see its key."""
    if visible is None or _finite(v):
        return weights @ v
    visible = visible.expand(weights.shape)
    context = weights @ torch.where(torch.isfinite(v), v, 0)
    for key in (~torch.isfinite(v)).any(-1).flatten(0, -2).any(0).nonzero()[:, 0].tolist():
        value = v[..., key, None, :]  # (..., H, 1, d_v)
        share = weights[..., key, None] * torch.where(torch.isfinite(value), 0, value)
        context = torch.where(visible[..., key, None], context + share, context)
    return context


def _finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())


def _attend(
    inputs: AttentionInputs,
    ask: Ask,
    batch: int,
    recorder: Recorder,
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    """One batch item: every stage to the recorder, then its rows."""

    def tensor(array: Any) -> Tensor:
        return to_tensor(array, device, dtype)

    visible, counted = inputs.visible(batch), inputs.counted(batch)
    seen = None if visible is None else to_tensor(visible, device)
    sinks = None if inputs.sinks is None else tensor(inputs.sinks)
    stages = _given(inputs, batch, tensor)
    stages |= attention_stages(
        stages.get("q_rotated", stages["q"]),
        stages.get("k_rotated", stages["k"]),
        stages["v"],
        visible=seen,
        additive=None if inputs.additive is None else tensor(inputs.added(batch)),
        bias=tensor(inputs.biased_by(batch)) if inputs.has_bias else None,
        scale=inputs.effective_scale,
        softcap=inputs.softcap,
        sinks=sinks,
    )
    stages |= _after(inputs, stages["context"], tensor)
    for name in ALL_STAGES:
        if name in stages and recorder.wants(name):
            recorder.see(batch, name, to_numpy(stages[name]), visible)
    rows = _rows(inputs, stages, seen, counted, sinks, ask.stats)
    recorder.finish(
        batch,
        rows,
        masked=to_numpy(stages["masked"]),
        weights=to_numpy(stages["weights"]),
        visible=visible,
    )


def _given(
    inputs: AttentionInputs, batch: int, tensor: Callable[[Any], Tensor]
) -> dict[str, Tensor]:
    """x, x_positions, q, k, v, q_rotated, k_rotated of one item, as far as there are such steps."""
    if inputs.origin is not None:
        stages = project(inputs.origin, batch, tensor)
    else:
        stages = {name: tensor(getattr(inputs, name)[batch]) for name in ("q", "k", "v")}
        if inputs.x is not None:
            stages["x"] = tensor(inputs.x[batch])
    if (turn := inputs.rotation) is not None:
        for name, positions in (("q", inputs.query_positions), ("k", inputs.key_positions)):
            stages[f"{name}_rotated"] = rotate(
                stages[name], positions, base=turn.base, interleaved=turn.pairing == "interleaved"
            )
    return stages


def project(origin: Origin, batch: int, tensor: Callable[[Any], Tensor]) -> dict[str, Tensor]:
    """Token vectors → q (H, L, d_k), k (Hkv, S, d_k), v (Hkv, S, d_v), as nn.Linear does it."""
    stages = {"x": tensor(origin.x[batch])}
    x = y = stages["x"]
    if origin.encoding is not None:
        x = y = stages["x_positions"] = x + tensor(origin.encoding)
    if origin.context is not None:
        y = tensor(origin.context[batch])
        y = y if origin.context_encoding is None else y + tensor(origin.context_encoding)
    for name, source, heads in (
        ("q", x, origin.heads),
        ("k", y, origin.kv_heads),
        ("v", y, origin.kv_heads),
    ):
        if origin.projections is not None:
            source = linear(source, origin.projections, name, tensor)
        split = source.reshape(*source.shape[:-1], heads, source.shape[-1] // heads)
        stages[name] = split.transpose(-3, -2)
    return stages


def linear(x: Tensor, weights: Projections, name: str, tensor: Callable[[Any], Tensor]) -> Tensor:
    """x · W + b with the matrix and bias of `name`: q, k, v or o."""
    bias = getattr(weights, f"b_{name}")
    matrix = tensor(getattr(weights, f"w_{name}")).mT
    return F.linear(x, matrix, None if bias is None else tensor(bias))


def rotate(array: Tensor, positions: Sequence[int], *, base: float, interleaved: bool) -> Tensor:
    """q or k (..., n, d) turned by its positions: feature pairs as complex numbers, times e^iθ."""
    d = array.shape[-1]
    wide = array.double() if array.dtype == torch.float64 else array.float()
    pairs = wide.reshape(*array.shape[:-1], *((d // 2, 2) if interleaved else (2, d // 2)))
    pairs = pairs if interleaved else pairs.transpose(-2, -1)  # (..., n, d / 2, 2)
    frequency = base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angle = torch.outer(torch.tensor(positions, dtype=torch.float64), frequency)
    turn = torch.polar(torch.ones_like(angle), angle).to(pairs.device)
    turned = torch.view_as_complex(pairs.contiguous()) * turn.to(
        torch.complex128 if wide.dtype == torch.float64 else torch.complex64
    )
    parts = torch.view_as_real(turned)
    parts = parts if interleaved else parts.transpose(-2, -1)
    return parts.flatten(-2).to(array.dtype)


def _after(
    inputs: AttentionInputs, context: Tensor, tensor: Callable[[Any], Tensor]
) -> dict[str, Tensor]:
    """The heads side by side, and through W_o where there is one."""
    if inputs.x is None:
        return {}
    stages = {"merged": context.transpose(-3, -2).flatten(-2)}
    if (weights := inputs.output_projection) is not None:
        stages["output"] = linear(stages["merged"], weights, "o", tensor)
    return stages


def _rows(
    inputs: AttentionInputs,
    stages: Mapping[str, Tensor],
    visible: Tensor | None,
    counted: Any,
    sinks: Tensor | None,
    stats: Sequence[Statistic],
) -> RowSums:
    """What the rows leave, by PyTorch's own logsumexp and sums in float32 or wider."""
    wide = torch.float64 if stages["masked"].dtype == torch.float64 else torch.float32
    masked, weights = stages["masked"].to(wide), stages["weights"].to(wide)
    empty = torch.zeros(masked.shape[:-1], dtype=torch.bool, device=masked.device)
    if visible is not None:
        empty = ~visible.any(-1)
    maximum = masked.amax(-1)
    shift = masked - maximum[..., None]
    lse, log_z = _lse(masked, maximum, sinks)
    shifted = torch.where(weights == 0, 0, weights * shift).sum(-1)
    q_pos = torch.tensor(list(inputs.query_positions), device=masked.device)[:, None]
    k_pos = torch.arange(masked.shape[-1], device=masked.device)
    numbers = {
        "maximum": maximum.masked_fill(empty, -INF),
        "lse": lse.masked_fill(empty, -INF),
        "log_z": log_z.masked_fill(empty, float("nan")),
        "weight_sum": weights.sum(-1),
        "shifted": shifted.masked_fill(empty, 0.0),
    }
    terms = {name: g for statistic in stats for name, g in statistic.terms.items()}
    expected = {name: to_numpy((weights * g(q_pos, k_pos)).sum(-1)) for name, g in terms.items()}
    all_keys = np.full(tuple(empty.shape), masked.shape[-1])
    return RowSums(
        **{name: to_numpy(value) for name, value in numbers.items()},
        expected=expected,
        visible=all_keys if counted is None else counted.sum(-1),
        empty=to_numpy(empty),
        aligned=inputs.q_offset is not None,
    )


def _lse(masked: Tensor, maximum: Tensor, sinks: Tensor | None) -> tuple[Tensor, Tensor]:
    """ln Σ exp(score) over the keys and the sink, and the same relative to the keys' maximum."""
    lse = torch.logsumexp(masked, -1)
    base = torch.where(torch.isneginf(maximum), 0, maximum)
    relative = torch.logsumexp(masked - base[..., None], -1)
    if sinks is not None:
        sink = sinks.to(masked.dtype)[:, None]
        lse, relative = torch.logaddexp(lse, sink), torch.logaddexp(relative, sink - base)
    relative = relative.masked_fill(lse == INF, float("nan"))  # inf − inf
    return lse, relative + (base - maximum)


ENGINE = TorchEngine()
