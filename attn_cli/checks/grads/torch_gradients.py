"""Gradients: what autograd says, for every head of the objective and every leaf."""

from __future__ import annotations

import torch
from torch import Tensor

from attn_cli.checks.grads.torch_objective import Objective
from attn_cli.errors import UnsupportedError


def gradients(objective: Objective) -> dict[str, Tensor | None]:
    """Each leaf's gradient (heads, numbers of the leaf); None where no path leads to it.

    Raises UnsupportedError where the subject cannot be differentiated at all.
    """
    point = {name: tensor.requires_grad_() for name, tensor in objective.point.items()}
    value = objective(point)
    if not value.requires_grad:
        return dict.fromkeys(point)
    rows = [_backward(objective, part, list(point.values())) for part in value.unbind()]
    columns = zip(*rows, strict=True)
    return {name: _stacked(list(column)) for name, column in zip(point, columns, strict=True)}


def _backward(objective: Objective, part: Tensor, tensors: list[Tensor]) -> list[Tensor | None]:
    try:
        return list(torch.autograd.grad(part, tensors, retain_graph=True, allow_unused=True))
    except RuntimeError as error:
        first_line = (str(error).splitlines() or ["no reason given"])[0]
        raise UnsupportedError(
            f"{objective.subject.name} cannot be differentiated: {first_line}",
            hint="use operations that torch has a gradient for",
        ) from error


def _stacked(parts: list[Tensor | None]) -> Tensor | None:
    """(heads, numbers): a head that no path connects has gradient 0, unless none is connected."""
    like = next((part for part in parts if part is not None), None)
    if like is None:
        return None
    return torch.stack([torch.zeros_like(like) if p is None else p for p in parts]).flatten(1)
