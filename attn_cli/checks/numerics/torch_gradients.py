"""Gradients of a layer in one precision: one backward pass, stage by stage, beside float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from attn_cli.checks.numerics.torch_blocks import (
    PAIRS,
    Way,
    attend,
    blocks,
    entering,
    pulled,
    rows_seen,
    tensor,
    turned,
)
from attn_cli.checks.places import place_in_words
from attn_cli.core.draws import normal
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.layer import Origin
from attn_cli.core.results_numerics import Clipping, GradientCount, Gradients
from attn_cli.core.trace import ALL_STAGES
from attn_cli.engines.torch_eager import project

Array = NDArray[Any]
Grads = dict[str, Tensor]

COTANGENT = 0  # the stream of the draws
ORDER = (
    "w_o",
    "b_o",
    "v",
    "q_rotated",
    "k_rotated",
    "q",
    "k",
    "w_v",
    "b_v",
    "w_q",
    "b_q",
    "w_k",
    "b_k",
    "x",
    "context",
)
MAX_NORM = 1.0


def gradients(inputs: AttentionInputs, dtype: str, *, seed: int, layer: int = 0) -> Gradients:
    """The gradients of q, k and v, or of x and every projection, from a random cotangent.

    Sums over batch items and over the rows of a head that does not fit at once are taken between
    backward passes, in the precision.
    """
    here = _backward(inputs, dtype, seed)
    wide = here if dtype == "float64" else _backward(inputs, "float64", seed)
    counts = tuple(_count(inputs, name, here[name], wide[name]) for name in ORDER if name in here)
    seen, total = len(rows_seen(inputs)), inputs.shape[2]
    found = Gradients(layer, dtype, seed, counts, seen * len(inputs.q), total * len(inputs.q))
    return found if found.first is None else replace(found, clipping=_clipped(here))


def _backward(inputs: AttentionInputs, dtype: str, seed: int) -> Grads:
    """The gradients by name; what is given for each item has a batch axis."""
    by_item: dict[str, list[Tensor]] = {}
    shared: Grads = {}
    for batch in range(inputs.shape[0]):
        for name, gradient in _item(inputs, batch, dtype, seed).items():
            if name[1:2] == "_":  # a matrix or its bias, which all items share
                shared[name] = shared[name] + gradient if name in shared else gradient
            else:
                by_item.setdefault(name, []).append(gradient)
    return shared | {name: torch.stack(items) for name, items in by_item.items()}


def _item(inputs: AttentionInputs, batch: int, dtype: str, seed: int) -> Grads:
    """One item: back through W_o, through every head, and through what made q, k and v."""
    leaves, stages = _made(inputs, batch, dtype)
    live, rows = entering(stages), rows_seen(inputs)
    qkv = (live[0].detach(), live[1].detach(), live[2].detach())
    flow, ours = _from_output(inputs, batch, qkv, rows, dtype, seed)
    flowing = _through_heads(inputs, batch, qkv, rows, flow)
    targets = dict(leaves)
    if inputs.rotation is not None:
        ours |= {"q_rotated": flowing[0], "k_rotated": flowing[1], "v": flowing[2]}
        targets |= {"q": stages["q"], "k": stages["k"]}
    else:
        ours |= dict(zip("qkv", flowing, strict=True))
    made = zip(targets, pulled(live, flowing, list(targets.values())), strict=True)
    return ours | {name: gradient for name, gradient in made if gradient is not None}


def _made(
    inputs: AttentionInputs, batch: int, dtype: str
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The leaves of one item by name, and its q, k and v (turned, too), made from them."""
    origin = inputs.origin
    if origin is None:
        leaves = {
            name: tensor(getattr(inputs, name)[batch], dtype).requires_grad_() for name in "qkv"
        }
        return leaves, leaves | turned(inputs, leaves)
    leaves = {}
    names = _names(origin)

    def leaf(array: Array) -> Tensor:
        made = tensor(array, dtype)
        name = names.get(id(array), "" if leaves else "x")
        if not name and origin.context is not None and np.may_share_memory(array, origin.context):
            name = "context"
        if name:
            leaves[name] = made.requires_grad_()
        return made

    stages = project(origin, batch, leaf)
    return leaves, stages | turned(inputs, stages)


def _names(origin: Origin) -> dict[int, str]:
    """The names of the projections by the identity of their arrays."""
    weights = origin.projections
    if weights is None:
        return {}
    arrays = {field.name: getattr(weights, field.name) for field in fields(weights)}
    return {id(array): name for name, array in arrays.items() if array is not None}


def _from_output(
    inputs: AttentionInputs,
    batch: int,
    qkv: tuple[Tensor, Tensor, Tensor],
    rows: Array,
    dtype: str,
    seed: int,
) -> tuple[Tensor, Grads]:
    """The gradient that reaches the context (H, L, d_v), and those of W_o and b_o.

    The cotangent is standard normal on the rows that are looked at, and 0 elsewhere.
    """
    heads, queries, width = inputs.shape[1], inputs.shape[2], inputs.v.shape[3]
    weights = inputs.output_projection
    if weights is None or weights.w_o is None:
        u = _cotangent(seed, batch, (queries, heads * width), rows, dtype)
        return u.reshape(queries, heads, width).transpose(0, 1), {}
    context = torch.zeros(heads, queries, width, dtype=qkv[2].dtype)
    with torch.no_grad():
        for part in blocks(inputs, batch, qkv, Way(dtype=dtype), rows):
            context[part.head][torch.as_tensor(part.rows)] = part.stages["context"]
    merged = context.transpose(0, 1).flatten(1).requires_grad_()
    leaves = {"w_o": tensor(weights.w_o, dtype).requires_grad_()}
    if weights.b_o is not None:
        leaves["b_o"] = tensor(weights.b_o, dtype).requires_grad_()
    output = F.linear(merged, leaves["w_o"].mT, leaves.get("b_o"))
    u = _cotangent(seed, batch, tuple(output.shape), rows, dtype)
    back, *own = (_there(part) for part in pulled([output], [u], [merged, *leaves.values()]))
    return back.reshape(queries, heads, width).transpose(0, 1), dict(zip(leaves, own, strict=True))


def _cotangent(seed: int, batch: int, shape: tuple[int, ...], rows: Array, dtype: str) -> Tensor:
    """(L, width): a standard normal number each, the same in every precision before rounding."""
    u = np.zeros(shape)
    u[rows] = normal(seed, COTANGENT + batch, (len(rows), *shape[1:]))
    return tensor(u, dtype)


def _through_heads(
    inputs: AttentionInputs,
    batch: int,
    qkv: tuple[Tensor, Tensor, Tensor],
    rows: Array,
    flow: Tensor,
) -> list[Tensor]:
    """The gradients of q (H, L, d_k), k and v (Hkv, S, ·) as they enter the product."""
    dtype = str(flow.dtype).removeprefix("torch.")
    sums = [torch.zeros_like(part) for part in qkv]
    group = inputs.shape[1] // inputs.kv_heads
    parts = max(1, -(-len(rows) * inputs.shape[3] // PAIRS))
    for head in range(inputs.shape[1]):
        kv = head // group
        for some in np.array_split(rows, min(parts, len(rows))):
            index = torch.as_tensor(some)
            own = (qkv[0][head][index], qkv[1][kv], qkv[2][kv])
            q, k, v = (one.clone().requires_grad_() for one in own)
            part = attend(inputs, batch, head, some, (q, k, v), Way(dtype=dtype))
            got = pulled([part.stages["context"]], [flow[head][index]], [q, k, v])
            dq, dk, dv = (_there(gradient) for gradient in got)
            sums[0][head][index] = dq
            sums[1][kv] += dk
            sums[2][kv] += dv
    return sums


def _there(gradient: Tensor | None) -> Tensor:
    """A gradient that cannot be missing."""
    assert gradient is not None
    return gradient


def _count(inputs: AttentionInputs, name: str, here: Tensor, wide: Tensor) -> GradientCount:
    bad = ~torch.isfinite(here)
    words = ""
    if bool(bad.any()):
        where = tuple(
            int(i) for i in np.unravel_index(int(bad.flatten().int().argmax()), bad.shape)
        )
        placed = name in ALL_STAGES
        words = place_in_words(inputs, name, where) if placed else f"[{', '.join(map(str, where))}]"
    nan = int(torch.isnan(here).sum())
    return GradientCount(
        name=name,
        nan=nan,
        inf=int(bad.sum()) - nan,
        total=here.numel(),
        norm=float(here.double().norm()),
        norm64=float(wide.norm()),
        vanished=int(((here == 0) & (wide != 0)).sum()),
        words=words,
    )


def _clipped(grads: Mapping[str, Tensor]) -> Clipping:
    """torch's own clipping by norm, on copies of these gradients."""
    parameters = []
    for gradient in grads.values():
        parameter = torch.nn.Parameter(torch.zeros_like(gradient))
        parameter.grad = gradient.clone()
        parameters.append(parameter)
    norm = torch.nn.utils.clip_grad_norm_(parameters, MAX_NORM)
    after = [parameter.grad for parameter in parameters]
    return Clipping(
        norm=float(norm),
        bad_before=sum(int((~torch.isfinite(one)).sum()) for one in grads.values()),
        nan_after=sum(int(torch.isnan(one).sum()) for one in after if one is not None),
        total=sum(one.numel() for one in grads.values()),
    )
