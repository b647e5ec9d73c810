"""Subjects with one planted fault: engine torch, but for the gradient of one of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attn_cli.checks.grads.torch_subject import TORCH, Forward
from attn_cli.core.inputs import AttentionInputs

Backward = Callable[[Tensor], Tensor]


class Crooked(torch.autograd.Function):
    """The identity, whose gradient is what a given function makes of the right one."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, backward: Backward) -> Tensor:
        ctx.wrong = backward
        return tensor.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return ctx.wrong(grads[0].clone()), None


@dataclass(frozen=True)
class Planted:
    """Engine torch with `backward` between the leaf's right gradient and what it hands out."""

    leaf: str
    backward: Backward
    name: str = "planted"

    def takes(self, leaf: str) -> bool:
        return True

    def of(self, inputs: AttentionInputs) -> Forward:
        right = TORCH.of(inputs)

        def forward(tensors: Mapping[str, Tensor]) -> Tensor:
            crooked = Crooked.apply(tensors[self.leaf], self.backward)  # type: ignore[no-untyped-call]
            return right({**tensors, self.leaf: crooked})

        return forward


@dataclass(frozen=True)
class Through:
    """Engine torch with something done to a leaf on the way in, or to the output."""

    leaf: str
    inward: Callable[[Tensor], Tensor] = lambda tensor: tensor
    outward: Callable[[Tensor, Tensor], Tensor] = lambda output, leaf: output
    name: str = "through"

    def takes(self, leaf: str) -> bool:
        return True

    def of(self, inputs: AttentionInputs) -> Forward:
        right = TORCH.of(inputs)

        def forward(tensors: Mapping[str, Tensor]) -> Tensor:
            leaf = tensors[self.leaf]
            return self.outward(right({**tensors, self.leaf: self.inward(leaf)}), leaf)

        return forward


def at(index: tuple[int, ...], change: float) -> Backward:
    """Adds `change` at one coordinate."""

    def backward(grad: Tensor) -> Tensor:
        grad[index] += change
        return grad

    return backward


def jitter(tensor: Tensor) -> Tensor:
    """A number between −1 and 1 that looks drawn anew wherever the tensor moves: noise."""
    return torch.frac(43758.5453 * torch.sin(1e13 * tensor.sum()))
