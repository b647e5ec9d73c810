"""Feeding: what enters the layers of a model, kept, and given to the layers of another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from attn_cli.core.model_calls import CallPlace

Slot = int | str  # a place among the arguments, or a name
Given = dict[Slot, Tensor]
Entered = dict[str, Given]  # by the layer's path and turn
NAMED = ("hidden_states", "encoder_hidden_states")


@contextmanager
def kept_inputs(model: nn.Module, paths: Sequence[str], kept: Entered) -> Iterator[None]:
    """Fills `kept` with the token vectors that enter each layer, while the model runs."""

    def keep(place: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        found = {slot: tensor.clone() for slot, tensor in _vectors(args, kwargs)}
        kept[place] = found

    with _entering(model, paths, keep):
        yield


@contextmanager
def fed(model: nn.Module, paths: Sequence[str], given: Mapping[str, Given]) -> Iterator[None]:
    """Each layer gets what is given for it instead of what the layers before it made.

    In the model's own precision and on its device; what has another shape stays.
    """

    def feed(place: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        instead = given.get(place, {})
        new_args, new_kwargs = list(args), dict(kwargs)
        for slot, tensor in _vectors(args, kwargs):
            other = instead.get(slot)
            if other is None or other.shape != tensor.shape:
                continue
            other = other.to(tensor.device, tensor.dtype)
            if isinstance(slot, int):
                new_args[slot] = other
            else:
                new_kwargs[slot] = other
        return tuple(new_args), new_kwargs

    with _entering(model, paths, feed):
        yield


@contextmanager
def _entering(
    model: nn.Module,
    paths: Sequence[str],
    enter: Callable[[str, tuple[Any, ...], dict[str, Any]], Any],
) -> Iterator[None]:
    turns: Counter[str] = Counter()

    def hook(path: str) -> Any:
        def entered(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            place = str(CallPlace(path, turns[path]))
            turns[path] += 1
            return enter(place, args, kwargs)

        return entered

    with ExitStack() as hooks:
        for path in paths:
            module = model.get_submodule(path)
            handle = module.register_forward_pre_hook(hook(path), with_kwargs=True, prepend=True)
            hooks.callback(handle.remove)
        yield


def _vectors(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[tuple[Slot, Tensor]]:
    """The arguments that are token vectors (B, n, d)."""
    slots: list[tuple[Slot, Any]] = [*enumerate(args)]
    slots += [(name, kwargs[name]) for name in NAMED if name in kwargs]
    for slot, value in slots:
        if isinstance(value, Tensor) and value.ndim == 3 and torch.is_floating_point(value):
            yield slot, value
