"""Objective: a random cotangent times the output, one number a head; and how noisy it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from attn_cli.checks.grads.leaves import Leaf
from attn_cli.checks.grads.torch_subject import Differentiable
from attn_cli.core.draws import normal, uniform
from attn_cli.core.engine import Ask
from attn_cli.core.inputs import AttentionInputs
from attn_cli.engines import ENGINES

COTANGENT, DIRECTION = 900, 901  # streams of the seed; --init and --shape draw from the first ones
PROBES = 8  # differences of what so many tiny steps change
NEARBY = 2.0**-36  # one such step, relative: many ulp, and nothing to a smooth function
FARTHEST = 1e4  # a fill of −1e9 is not moved in proportion: that would be no tiny step of a score
ORDERS = range(3, 7)  # of the differences that hold nothing but noise

Point = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class Objective:
    """φ(point): for each head, Σ cotangent · output over everything else; shape (heads,) or (1,).

    It is one number for all heads where W_o mixes them, and where `mixed` says so.

    A cotangent drawn at random weighs every number of the output differently. With a mean or a sum
    in its place the rows of the weights, which sum to 1, would cancel and hide errors.
    """

    subject: Differentiable
    inputs: AttentionInputs
    seed: int
    leaves: Mapping[str, Leaf]
    mixed: bool = False

    @property
    def point(self) -> dict[str, Tensor]:
        """Where the question stands: a fresh copy of every leaf."""
        return {name: torch.tensor(leaf.array) for name, leaf in self.leaves.items()}

    @cached_property
    def output(self) -> Callable[[Point], Tensor]:
        """The subject's output on a point."""
        return self.subject.of(self.inputs)

    @cached_property
    def cotangent(self) -> Tensor:
        """Standard normal numbers in the shape of the output."""
        with torch.no_grad():
            shape = tuple(self.output(self.point).shape)
        return torch.tensor(normal(self.seed, COTANGENT, shape))

    def __call__(self, point: Point) -> Tensor:
        return self.summed(self.cotangent * self.output(point))

    def summed(self, weighed: Tensor) -> Tensor:
        """Numbers in the shape of the output, summed for each head; (heads,) or (1,)."""
        if not self.per_head:
            return weighed.sum().reshape(1)
        if weighed.ndim == 4:  # (B, H, L, d_v)
            return weighed.sum((0, 2, 3))
        split = weighed.reshape(*weighed.shape[:2], self.inputs.shape[1], -1)  # (B, L, H, d_v)
        return split.sum((0, 1, 3))

    @property
    def per_head(self) -> bool:
        """Whether each number of it belongs to one head."""
        return not self.mixed and self.inputs.output_projection is None


def noise(objective: Callable[[Point], Tensor], point: Point, seed: int) -> Tensor:
    """The rounding noise of φ, (heads,): standard deviation, measured from its differences.

    In the k-th differences of values at tiny equal steps nothing is left of a smooth function; what
    is left is noise, σ² ≈ (k!)² / (2k)! · mean Δᵏ². The largest of four orders, and at least u·|φ|.
    Source: Moré and Wild, Estimating computational noise, 2011.
    """
    values = [objective(point)]
    for step in range(1, PROBES + 1):
        moved = {
            name: t + step * NEARBY * t.abs().clamp(1, FARTHEST) * _signs(seed, i, t)
            for i, (name, t) in enumerate(point.items())
        }
        values.append(objective(moved))
    differences = torch.stack(values)  # (PROBES + 1, heads)
    least = torch.finfo(torch.float64).eps / 2 * differences.abs().amax(0)
    found = [least]
    for order in range(1, max(ORDERS) + 1):
        differences = differences.diff(dim=0)
        if order in ORDERS:
            factor = math.factorial(order) ** 2 / math.factorial(2 * order)
            found.append((factor * differences.square().mean(0)).sqrt())
    return torch.stack(found).amax(0)


def stairs(objective: Objective, sizes: Tensor) -> Tensor:
    """How coarse φ is since float64 rounds scores, (heads,); `sizes` are Σ |cotangent · output|.

    Softmax takes what a score differs from its row's largest by. Where that is a fill of −1e9,
    scores lie 1.2e-7 apart and φ is a staircase: no tiny step shows it. A rounding error is
    uniform over one stair, so its deviation is the stair over √12.
    """
    inputs = objective.inputs
    masked = ENGINES["numpy"].run(inputs, Ask(keep=frozenset({"masked"})))["masked"]
    visible = inputs.visible()
    seen = np.isfinite(masked) & (True if visible is None else visible)
    top = np.where(seen, masked, -np.inf).max(-1)  # (B, H, L)
    stair = np.spacing(np.abs(np.where(np.isfinite(top), top, 0.0))).max((0, 2))  # (H,)
    stair = stair if objective.per_head else stair.max(keepdims=True)
    return torch.tensor(stair / math.sqrt(12)) * sizes


def _signs(seed: int, stream: int, like: Tensor) -> Tensor:
    """Random −1 and 1 in the shape of a tensor."""
    return torch.tensor(uniform(seed, DIRECTION + stream, tuple(like.shape))).sub(0.5).sign()
