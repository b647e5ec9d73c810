"""Differentiable: attention that torch can differentiate; and engine torch as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from attn_cli.checks.grads.leaves import BIASES, MATRICES
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.layer import Origin, Projections
from attn_cli.engines.torch_eager import attention_stages, linear, project, rotate

Forward = Callable[[Mapping[str, Tensor]], Tensor]


class Differentiable(Protocol):
    """Somebody's attention: a question → the function of its leaves that torch differentiates.

    The function takes the leaves by name (`checks.grads.leaves`), float64 tensors with or without
    gradients: q (B, H, L, d_k), k, v (B, Hkv, S, d), or x, context and projections (in, out); and
    returns the context (B, H, L, d_v) of q, k and v, and of token vectors the output (B, L, d).
    `takes` says which leaves it reads: the gradient of no other is checked.
    """

    @property
    def name(self) -> str: ...

    def takes(self, leaf: str) -> bool: ...

    def of(self, inputs: AttentionInputs) -> Forward: ...


class TorchAttention:
    """Engine torch, by the functions that it runs; the whole batch at once."""

    name = "torch"

    def takes(self, leaf: str) -> bool:
        return True

    def of(self, inputs: AttentionInputs) -> Forward:
        """The output, as `attn run --engine torch` returns it."""
        keep = inputs.visible()
        visible = None if keep is None else torch.tensor(keep)
        placed = _position_bias(inputs)

        def forward(tensors: Mapping[str, Tensor]) -> Tensor:
            q, k, v = _turned(inputs, *_given(inputs, tensors))
            context = attention_stages(
                q,
                k,
                v,
                visible=visible,
                additive=tensors.get("additive"),
                bias=_total([*placed, *(tensors[n] for n in ("bias", "scores") if n in tensors)]),
                scale=inputs.effective_scale,
                softcap=inputs.softcap,
                sinks=tensors.get("sinks"),
            )["context"]
            return _merged(inputs, context, tensors)

        return forward


def _given(inputs: AttentionInputs, tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v, made from the token vectors where there are such."""
    if inputs.origin is None:
        return tensors["q"], tensors["k"], tensors["v"]
    stages = project(_origin(inputs.origin, tensors), 0, _as_tensor)
    return stages["q"], stages["k"], stages["v"]


def _turned(
    inputs: AttentionInputs, q: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    if (turn := inputs.rotation) is not None:
        paired = turn.pairing == "interleaved"
        q = rotate(q, inputs.query_positions, base=turn.base, interleaved=paired)
        k = rotate(k, inputs.key_positions, base=turn.base, interleaved=paired)
    return q, k, v


def _merged(inputs: AttentionInputs, context: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
    if inputs.x is None:
        return context
    merged = context.transpose(-3, -2).flatten(-2)
    if inputs.output_projection is None:
        return merged
    return linear(merged, _projections(tensors), "o", _as_tensor)


def _position_bias(inputs: AttentionInputs) -> list[Tensor]:
    """What the positions add to the scores, (B, H, L, S), where they do."""
    if inputs.position_bias is None:
        return []
    alone = replace(inputs, bias=None)
    return [torch.tensor(np.stack([alone.biased_by(item) for item in range(inputs.shape[0])]))]


def _total(parts: list[Tensor]) -> Tensor | None:
    return sum(parts[1:], parts[0]) if parts else None


def _origin(origin: Origin, tensors: Mapping[str, Tensor]) -> Origin:
    """The origin with tensors in place of its arrays, the whole batch as its one item."""
    held: dict[str, Any] = {"x": tensors["x"][None], "context": None, "projections": None}
    if origin.context is not None:
        held["context"] = tensors["context"][None]
    if origin.projections is not None:
        held["projections"] = _projections(tensors)
    return Origin(
        heads=origin.heads,
        kv_heads=origin.kv_heads,
        encoding=origin.encoding,
        context_encoding=origin.context_encoding,
        **held,
    )


def _projections(tensors: Mapping[str, Tensor]) -> Projections:
    held: dict[str, Any] = {name: tensors.get(name) for name in (*MATRICES, *BIASES)}
    return Projections(**held)


def _as_tensor(array: Any) -> Tensor:
    """A leaf as it is, a table of the question in float64."""
    return array if isinstance(array, Tensor) else torch.tensor(np.asarray(array, np.float64))


TORCH = TorchAttention()
