"""Blocks: attention in one precision, some rows of one head at a time, so that nothing is n × n."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from attn_cli.checks.torch_threads import one_thread
from attn_cli.core.inputs import FINITE_FILL, AttentionInputs
from attn_cli.core.layer import Projections
from attn_cli.engines.torch_eager import attention_stages, project, rotate

Array = NDArray[Any]

PAIRS = 1 << 20  # scores in one block
FEW = 1 << 16  # scores of a head that one thread computes
PAIRS_SEEN = 1 << 22  # scores that figures are made of; beyond, rows are sampled


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How to compute: the precision, the scale (None: the input's), and where it is applied.

    `first` "q" scales q before the product, "both" q and k by its root each.
    """

    dtype: str
    scale: float | None = None
    first: Literal["", "q", "both"] = ""

    def factor(self, inputs: AttentionInputs) -> float:
        return inputs.effective_scale if self.scale is None else self.scale


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some rows of one (batch, head): every stage from scores (n, S) to context (n, d_v).

    `q` (n, d_k), `k` and `v` (S, ·) are what entered the product; `visible` (n, S), None: all;
    `added` and `bias` (n, S) are what the mask and the bias add, None: nothing.
    """

    batch: int
    head: int
    rows: Array
    q: Tensor
    k: Tensor
    v: Tensor
    visible: Array | None
    added: Array | None
    bias: Array | None
    stages: Mapping[str, Tensor]

    @property
    def seen(self) -> Array:
        """(n, S): which keys take part."""
        shape = self.stages["scores"].shape
        return np.ones(shape, bool) if self.visible is None else self.visible

    @property
    def counted(self) -> Array:
        """(n, S): which keys count as visible: those that no finite fill was meant to hide."""
        return self.seen if self.added is None else self.seen & ~(self.added <= FINITE_FILL)

    @property
    def filled(self) -> Array:
        """(n, S): where the mask or the bias adds a finite number that was meant to hide."""
        fills = np.zeros(self.stages["scores"].shape, bool)
        for array in (self.added, self.bias):
            if array is not None:
                fills |= (array <= FINITE_FILL) & np.isfinite(array)
        return fills


def threads_for(inputs: AttentionInputs) -> AbstractContextManager[None]:
    """One thread where heads are small."""
    return one_thread(inputs.shape[2] * inputs.shape[3] <= FEW)


def rows_seen(inputs: AttentionInputs) -> Array:
    """The queries that figures are made of: all, or so many at even distances that it is short."""
    batch, heads, queries, keys = inputs.shape
    most = max(1, PAIRS_SEEN // (batch * heads * keys))
    if most >= queries:
        return np.arange(queries)
    return np.unique(np.linspace(0, queries - 1, most).round().astype(np.int64))


def tensor(array: Array, dtype: str) -> Tensor:
    """The array rounded to `dtype` as PyTorch rounds it."""
    return torch.tensor(np.ascontiguousarray(array)).to(getattr(torch, dtype))


def given(inputs: AttentionInputs, batch: int, dtype: str) -> dict[str, Tensor]:
    """x, x_positions, q, k, v, q_rotated and k_rotated of one item, as far as there are such."""
    if inputs.origin is not None:
        stages = project(inputs.origin, batch, lambda array: tensor(array, dtype))
    else:
        stages = {name: tensor(getattr(inputs, name)[batch], dtype) for name in ("q", "k", "v")}
    return stages | turned(inputs, stages)


def turned(inputs: AttentionInputs, stages: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """q and k turned by their positions, where they are."""
    turn = inputs.rotation
    if turn is None:
        return {}
    kind = turn.pairing == "interleaved"
    return {
        f"{name}_rotated": rotate(stages[name], positions, base=turn.base, interleaved=kind)
        for name, positions in (("q", inputs.query_positions), ("k", inputs.key_positions))
    }


def entering(stages: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v as they enter the product."""
    return stages.get("q_rotated", stages["q"]), stages.get("k_rotated", stages["k"]), stages["v"]


def blocks(
    inputs: AttentionInputs, batch: int, qkv: tuple[Tensor, Tensor, Tensor], way: Way, rows: Array
) -> Iterator[Block]:
    """The chosen rows of every head of one item, block by block."""
    _, heads, _, keys = inputs.shape
    parts = max(1, -(-len(rows) * keys // PAIRS))
    for head in range(heads):
        for some in np.array_split(rows, min(parts, len(rows))):
            yield block(inputs, batch, head, some, qkv, way)


def block(
    inputs: AttentionInputs,
    batch: int,
    head: int,
    rows: Array,
    qkv: tuple[Tensor, Tensor, Tensor],
    way: Way,
) -> Block:
    """Some rows of one head; q (H, L, d_k), k and v (Hkv, S, ·) are the whole item's."""
    kv = head // (inputs.shape[1] // inputs.kv_heads)
    q = qkv[0][head][torch.as_tensor(rows)]
    return attend(inputs, batch, head, rows, (q, qkv[1][kv], qkv[2][kv]), way)


def attend(
    inputs: AttentionInputs,
    batch: int,
    head: int,
    rows: Array,
    qkv: tuple[Tensor, Tensor, Tensor],
    way: Way,
) -> Block:
    """Some rows of one head from their own q (n, d_k), and its k and v (S, ·); differentiable."""
    visible, added, bias = around(inputs, batch, head, rows)
    sinks = None if inputs.sinks is None else tensor(inputs.sinks[head : head + 1], way.dtype)
    q, k, scale = _scaled_first(qkv[0], qkv[1], way.factor(inputs), way.first)
    stages = attention_stages(
        q[None],
        k[None],
        qkv[2][None],
        visible=None if visible is None else torch.tensor(visible)[None],
        additive=None if added is None else tensor(added, way.dtype),
        bias=None if bias is None else tensor(bias, way.dtype),
        scale=scale,
        softcap=inputs.softcap,
        sinks=sinks,
    )
    plain = {name: stage[0] for name, stage in stages.items()}
    return Block(batch, head, rows, *qkv, visible, added, bias, plain)


def _scaled_first(q: Tensor, k: Tensor, factor: float, first: str) -> tuple[Tensor, Tensor, float]:
    """q and k as they are multiplied, and the scale that is left for their product."""
    if first == "q":
        return q * factor, k, 1.0
    if first == "both":
        return q * factor**0.5, k * factor**0.5, 1.0
    return q, k, factor


def around(
    inputs: AttentionInputs, batch: int, head: int, rows: Array
) -> tuple[Array | None, Array | None, Array | None]:
    """What is visible, what the mask adds and what the bias adds: (n, S) each, or None."""
    _, _, _, keys = inputs.shape
    start = inputs.q_offset or 0
    grid = (
        np.full((1, 1, 1), batch),
        np.full((1, 1, 1), head),
        (start + rows).reshape(1, -1, 1),
        np.arange(keys).reshape(1, 1, -1),
    )
    shape = (1, len(rows), keys)
    added = None if inputs.additive is None else inputs.added(batch)[head][rows]
    own = None
    if inputs.bias is not None:
        own = np.broadcast_to(inputs.bias, inputs.shape)[batch, head][rows]
    visible = None
    if inputs.mask is not None or inputs.hides_by_adding:
        keep = True if inputs.mask is None else inputs.mask(*grid)
        visible = np.array(np.broadcast_to(keep, shape)[0])
        for array in (added, own):
            visible &= True if array is None else ~np.isneginf(array)
    if inputs.position_bias is not None:
        placed = np.broadcast_to(inputs.position_bias(*grid), shape)[0]
        own = placed if own is None else own + placed
    return visible, added, own


def project_out(merged: Tensor, weights: Projections, dtype: str) -> Tensor:
    """merged · W_o + b_o."""
    assert weights.w_o is not None
    bias = None if weights.b_o is None else tensor(weights.b_o, dtype)
    return F.linear(merged, tensor(weights.w_o, dtype).mT, bias)


def pulled(
    outputs: Sequence[Tensor], cotangents: Sequence[Tensor], leaves: Sequence[Tensor]
) -> list[Tensor | None]:
    """The gradients of Σ ⟨cotangent, output⟩; None for a leaf that no output depends on.

    As one sum, since autograd's own cotangents import a compiler first, which takes seconds.
    """
    total = sum(
        ((output * u).sum() for output, u in zip(outputs, cotangents, strict=True)),
        start=torch.zeros((), dtype=outputs[0].dtype),
    )
    return list(torch.autograd.grad(total, list(leaves), allow_unused=True))


def to_float64(stage: Tensor) -> Array:
    """The numbers of a tensor, widened exactly."""
    wide: Array = stage.detach().double().numpy()
    return wide
