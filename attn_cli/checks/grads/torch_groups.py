"""Groups: the gradient of a shared key/value head is the sum over the query heads that share it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from attn_cli.checks.grads.leaves import core_question, leaves
from attn_cli.checks.grads.torch_gradients import gradients
from attn_cli.checks.grads.torch_objective import Objective
from attn_cli.checks.grads.torch_subject import Differentiable
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results_grads import GroupSums, Spot

AXES = {"k": ("batch", "head", "key", "d_k"), "v": ("batch", "head", "key", "d_v")}
EPS = torch.finfo(torch.float64).eps
ROUNDINGS = 64  # two right sums in two orders, of the largest term


def group_sums(subject: Differentiable, inputs: AttentionInputs, seed: int) -> Iterator[GroupSums]:
    """k and v shared, beside k and v repeated for every query head and summed; nothing without GQA.

    q, k and v are taken as they are, whatever made them.
    """
    group = inputs.shape[1] // inputs.kv_heads
    if group == 1 or not (subject.takes("k") and subject.takes("v")):
        return
    core = core_question(inputs)
    repeated = replace(core, k=core.k.repeat(group, axis=1), v=core.v.repeat(group, axis=1))
    shared, alone = (_gradients(subject, question, seed) for question in (core, repeated))
    for name in ("k", "v"):
        shape = getattr(core, name).shape
        terms = alone[name].reshape(shape[0], shape[1], group, *shape[2:])
        yield _compared(name, shared[name].reshape(shape), terms)


def _gradients(subject: Differentiable, inputs: AttentionInputs, seed: int) -> dict[str, Tensor]:
    """The gradients of k and v of the whole objective; 0 where no path leads there."""
    read = {leaf.name: leaf for leaf in leaves(inputs) if subject.takes(leaf.name)}
    found = gradients(Objective(subject, inputs, seed, read, mixed=True))
    return {
        name: torch.tensor(np.zeros(getattr(inputs, name).shape))
        if (g := found[name]) is None
        else g
        for name in ("k", "v")
    }


def _compared(name: str, shared: Tensor, terms: Tensor) -> GroupSums:
    """shared (B, Hkv, S, d) beside the sum of terms (B, Hkv, group, S, d) over the group."""
    sums = terms.sum(2)
    apart = (shared - sums).abs().nan_to_num(nan=float("inf"))
    allowed = ROUNDINGS * EPS * max(float(terms.nan_to_num().abs().max()), EPS)
    index = tuple(int(i) for i in np.unravel_index(int(apart.argmax()), tuple(apart.shape)))
    spot = Spot(
        at=dict(zip(AXES[name], index, strict=True)),
        head=None,
        analytic=float(shared[index]),
        numeric=float(sums[index]),
        allowed=allowed,
    )
    return GroupSums(name, "right" if float(apart.max()) <= allowed else "wrong", spot)
