"""Numeric: central differences of an objective, and how far they may be off, both measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Function = Callable[[Tensor], Tensor]  # one leaf → φ (heads,)

EPS = torch.finfo(torch.float64).eps
WIDEST, NARROWEST = 2.0**-6, 2.0**-26  # of the steps that are tried
# How many standard deviations of noise a difference of two values may be off by: of 10⁵ normal
# numbers the largest is 4.3, and σ itself is known to a factor of about 2.
SIGMAS = 16
ROUNDINGS = 64  # of autograd's own sums


@dataclass(frozen=True, slots=True, eq=False)
class Differences:
    """Central differences at some coordinates of one leaf: all (coordinates, heads).

    `values` are (φ(x + h) − φ(x − h)) / 2h and off by h²/6·φ‴ + noise / h. `allowed` is the
    difference to the same with 2h, which is three times the first, plus SIGMAS times the second.
    """

    values: Tensor
    allowed: Tensor
    step: float


def differences(
    function: Function, leaf: Tensor, coordinates: Sequence[int], noise: Tensor, step: float
) -> Differences:
    """The derivative of φ along each coordinate, by flat index, of the leaf."""
    narrow = torch.stack([_slope(function, leaf, _unit(leaf, i), step) for i in coordinates])
    wide = torch.stack([_slope(function, leaf, _unit(leaf, i), 2 * step) for i in coordinates])
    return Differences(narrow, _allowed(narrow, wide, noise, step), step)


def along(
    function: Function, leaf: Tensor, direction: Tensor, noise: Tensor, step: float
) -> Differences:
    """The derivative of φ along one direction, (1, heads)."""
    narrow = _slope(function, leaf, direction, step)[None]
    wide = _slope(function, leaf, direction, 2 * step)[None]
    return Differences(narrow, _allowed(narrow, wide, noise, step), step)


def best_step(function: Function, leaf: Tensor, some: Sequence[int], noise: Tensor) -> float:
    """The power of 2 for which h²/6·φ‴ and noise / h together are least: h³ = 3·noise / φ‴.

    φ‴ comes from the differences of two wide steps at some coordinates.
    """
    narrow = torch.stack([_slope(function, leaf, _unit(leaf, i), WIDEST) for i in some])
    wide = torch.stack([_slope(function, leaf, _unit(leaf, i), 2 * WIDEST) for i in some])
    third = ((wide - narrow) * 2 / WIDEST**2).abs().amax(0)  # (heads,)
    cubes = (3 * noise / third).nan_to_num(nan=1.0)  # no third derivative, no noise: any step
    best = float(cubes.amin().pow(1 / 3))
    return 2.0 ** round(math.log2(min(max(best, NARROWEST), WIDEST)))


def _allowed(narrow: Tensor, wide: Tensor, noise: Tensor, step: float) -> Tensor:
    return (wide - narrow).abs() + SIGMAS * noise / step + ROUNDINGS * EPS * narrow.abs()


def _slope(function: Function, leaf: Tensor, direction: Tensor, step: float) -> Tensor:
    """A central difference over what the step became after rounding."""
    ahead, behind = leaf + step * direction, leaf - step * direction
    moved = float(((ahead - behind) * direction).nan_to_num(0.0).sum() / direction.square().sum())
    return (function(ahead) - function(behind)) / (moved or 2 * step)


def _unit(leaf: Tensor, index: int) -> Tensor:
    """The direction of one coordinate."""
    unit = torch.zeros(leaf.numel(), dtype=leaf.dtype)
    unit[index] = 1.0
    return unit.reshape(leaf.shape)
