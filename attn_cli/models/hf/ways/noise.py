"""Noise: a model whose modules round otherwise, to see what rounding does to this very input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def noisy(model: nn.Module, seed: int) -> Iterator[None]:
    """What goes into and comes out of each module with parameters moves by rounding, at random.

    Every number moves by at most one unit in the last place of its row's largest number, as
    products do that are summed in another order; below float32 by such a unit of float32, for that
    is what sums are kept in, and by one of its own. In float64 too it is a unit of float32, in
    which families take norms, rotations and softmax whatever they hold. Looking up an embedding
    rounds nothing. The hooks are gone afterwards.
    """
    generators: dict[torch.device, torch.Generator] = {}

    def moved(tensor: Tensor) -> Tensor:
        if tensor.device not in generators:
            generators[tensor.device] = torch.Generator(tensor.device).manual_seed(seed)
        return _moved(tensor, generators[tensor.device])

    def before(module: nn.Module, given: tuple[Any, ...]) -> Any:
        return _first(given, moved)

    def after(module: nn.Module, given: Any, made: Any) -> Any:
        return moved(made) if _is_number(made) else _first(made, moved)

    with ExitStack() as hooks:
        for module in model.modules():
            if _rounds(module):
                hooks.callback(module.register_forward_pre_hook(before).remove)
                hooks.callback(module.register_forward_hook(after).remove)
        yield


def _rounds(module: nn.Module) -> bool:
    own = next(module.parameters(recurse=False), None) is not None
    return own and not isinstance(module, nn.Embedding)


def _first(parts: Any, moved: Any) -> Any:
    """A tuple with its first tensor of numbers moved; anything else as it is."""
    if not isinstance(parts, tuple) or type(parts) is not tuple:
        return parts
    for number, part in enumerate(parts):
        if _is_number(part):
            return (*parts[:number], moved(part), *parts[number + 1 :])
    return parts


def _is_number(part: Any) -> bool:
    return isinstance(part, Tensor) and part.is_floating_point() and part.ndim > 0


def _moved(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Sums are kept in float32 or wider; a coarser precision then rounds each number by itself."""
    largest = torch.where(tensor.isfinite(), tensor, 0).abs().amax(-1, keepdim=True)
    wide = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    draw = 2 * torch.rand(tensor.shape, generator=generator, device=tensor.device, dtype=wide) - 1
    step = largest.to(wide) * torch.finfo(torch.float32).eps
    if tensor.dtype.itemsize < 4:
        step = step + tensor.to(wide).abs() * torch.finfo(tensor.dtype).eps
    return (tensor.to(wide) + draw * step).to(tensor.dtype)
