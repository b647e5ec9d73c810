"""Sampling: which coordinates of a leaf are moved one by one, and how the rest is not missed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

import numpy as np
import torch
from torch import Tensor

from attn_cli.checks.grads.torch_numeric import Function, along
from attn_cli.checks.torch_threads import one_thread
from attn_cli.core.draws import uniform
from attn_cli.core.inputs import AttentionInputs

SAMPLE = 950  # stream of the seed
WORK = 3e10  # multiplications that one case may take
LEAST_CALL = 2e6  # what a call costs however small it is, in multiplications
ELEMENTWISE = 64  # of a score: scale, mask, softmax
WORTH_THREADS = 1e9  # multiplications of one call
FEWEST = 8  # coordinates of a leaf
CALLS_EACH = 6  # evaluations a coordinate: two steps both ways, and gradcheck's


def affordable(inputs: AttentionInputs, totals: Sequence[int]) -> int:
    """How many coordinates of a leaf may be moved; `totals` has every leaf's. The same everywhere.

    Leaves that have fewer leave the rest to the others.
    """
    left = int(WORK / max(products(inputs), LEAST_CALL) / CALLS_EACH)
    for done, total in enumerate(sorted(totals)):
        share = left // (len(totals) - done)
        if total > share:
            return max(FEWEST, share)
        left -= total
    return max(totals)


def threads_for(inputs: AttentionInputs) -> AbstractContextManager[None]:
    """One thread while the products of a call are small."""
    return one_thread(products(inputs) <= WORTH_THREADS)


def products(inputs: AttentionInputs) -> int:
    """The multiplications of one call, about."""
    batch, heads, queries, keys = inputs.shape
    count = batch * heads * queries * keys * (inputs.q.shape[-1] + inputs.v.shape[-1] + ELEMENTWISE)
    if inputs.origin is not None and inputs.origin.projections is not None:
        matrix = inputs.origin.projections.w_q
        count += 4 * batch * max(queries, keys) * matrix.size
    return int(count)


def sample(total: int, most: int, seed: int, stream: int) -> list[int]:
    """Flat indices, ascending: all of them, or about `most` drawn from the seed."""
    if total <= most:
        return list(range(total))
    drawn = (uniform(seed, SAMPLE + stream, (most,)) * total).astype(np.int64)
    return [int(i) for i in np.unique(drawn)]


def signs(total: int, seed: int, stream: int) -> Tensor:
    """A random −1 or 1 for every coordinate."""
    draws = uniform(seed, SAMPLE + stream + 1, (total,))
    return torch.tensor(np.where(draws < 0.5, -1.0, 1.0))


def culprit(
    function: Function,
    leaf: Tensor,
    analytic: Tensor,
    noise: Tensor,
    step: float,
    direction: Tensor,
) -> int | None:
    """A coordinate that is wrong, out of all of them; None where the whole direction is right.

    One difference along a random direction sees every coordinate at once. Where it and autograd
    disagree, one of the direction's halves does so too, down to a single coordinate.
    """
    low, high = 0, leaf.numel()
    if not _disagrees(function, leaf, analytic, noise, step, direction, low, high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        left = _disagrees(function, leaf, analytic, noise, step, direction, low, middle)
        low, high = (low, middle) if left else (middle, high)
    return low


def _disagrees(
    function: Function,
    leaf: Tensor,
    analytic: Tensor,
    noise: Tensor,
    step: float,
    direction: Tensor,
    low: int,
    high: int,
) -> bool:
    """Whether the derivative along the coordinates low to high is not autograd's."""
    part = torch.zeros_like(direction)
    part[low:high] = direction[low:high] / (high - low) ** 0.5
    numeric = along(function, leaf, part.reshape(leaf.shape), noise, step)
    return bool(((analytic @ part)[None] - numeric.values).abs().gt(numeric.allowed).any())
