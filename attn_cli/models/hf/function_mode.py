"""What attends outside the attention interface: softmax and SDPA, seen as torch functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attn_cli.models.hf.places import Tracker

_ATTENTION = re.compile(r"attn|attention", re.IGNORECASE)
_SOFTMAX = frozenset((F.softmax, torch.softmax, Tensor.softmax, torch._softmax))
_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads")


class Sink(Protocol):
    """Where what is seen goes; each returns what the model is to go on with."""

    inside: bool  # an interface call is running, whose own functions are not to be seen again

    def kernel(self, module: nn.Module, call: dict[str, Any], context: Tensor) -> Tensor: ...
    def softmax(self, module: nn.Module, masked: Tensor, weights: Tensor) -> Tensor: ...
    def precision(self, dtype: torch.dtype | None) -> None: ...
    def elsewhere(self, module: nn.Module | None) -> None: ...
    def unread(self, module: nn.Module) -> None: ...


class Watching(TorchFunctionMode):
    """Sees every torch function that a model calls and lets it run as it is."""

    def __init__(self, tracker: Tracker, sink: Sink) -> None:
        super().__init__()
        self.tracker, self.sink = tracker, sink

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func in _SOFTMAX:
            return self._softmax(args, kwargs, result)
        if func is F.scaled_dot_product_attention:
            return self._kernel(args, kwargs, result)
        return result

    def _kernel(self, args: tuple[Any, ...], kwargs: dict[str, Any], context: Tensor) -> Tensor:
        if self.sink.inside:
            self.sink.precision(None)
            return context
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        call = dict(zip(names, args, strict=False)) | kwargs
        module = self.tracker.innermost()
        if module is None:
            self.sink.elsewhere(module)
            return context
        if call["query"].ndim != 4:
            self.sink.unread(module)
            return context
        return self.sink.kernel(module, call, context)

    def _softmax(self, args: tuple[Any, ...], kwargs: dict[str, Any], weights: Tensor) -> Tensor:
        given: Tensor = args[0] if args else kwargs["input"]
        if self.sink.inside:
            self.sink.precision(weights.dtype)
            return weights
        module = self.tracker.innermost()
        if module is None or not _ATTENTION.search(type(module).__name__):
            self.sink.elsewhere(module)
            return weights
        shape = _by_head(module, given, args[1] if len(args) > 1 else kwargs.get("dim", -1))
        if shape is None:
            self.sink.unread(module)
            return weights
        changed = self.sink.softmax(module, given.view(shape), weights.view(shape))
        return changed.view(weights.shape)


def _by_head(module: nn.Module, given: Tensor, dim: Any) -> tuple[int, ...] | None:
    """The shape of scores as (B, H, L, S); None where chunks or bands have other axes."""
    if dim not in (-1, given.ndim - 1) or given.ndim not in (3, 4):
        return None
    heads = next((n for name in _HEADS if type(n := getattr(module, name, None)) is int), None)
    if given.ndim == 4:
        return tuple(given.shape) if heads in (None, given.shape[1]) else None
    if heads is None or given.shape[0] % heads or not given.is_contiguous():
        return None
    return (given.shape[0] // heads, heads, *given.shape[1:])
