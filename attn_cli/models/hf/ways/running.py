"""Running a model: its calls, its layers' outputs and its own outputs handed on as they come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from torch import Tensor, nn

from attn_cli.core.model_calls import CallPlace, ModelCoverage
from attn_cli.models.hf.call import AttentionCall
from attn_cli.models.hf.capture import Capture, capture
from attn_cli.models.hf.inputs import ModelInputs
from attn_cli.models.hf.loaded import LoadedModel


class Watcher(Protocol):
    """What sees a run in the order in which it happens. Tensors live until the call returns."""

    def see(self, call: AttentionCall) -> None: ...
    def layer(self, place: CallPlace, output: Tensor) -> None: ...
    def output(self, name: str, output: Tensor) -> None: ...


def run(
    loaded: LoadedModel,
    inputs: ModelInputs,
    layers: Sequence[str],
    watcher: Watcher,
    **extra: Any,
) -> Capture:
    """One forward. `layers` are the paths of the layers whose outputs are wanted."""
    with _layer_outputs(loaded.model, layers, watcher):
        seen = capture(loaded, inputs, [watcher], verify=False, **extra)
    for name, tensor in seen.outputs.items():
        if tensor.is_floating_point():
            watcher.output(name, tensor)
    return seen


def layer_paths(coverage: ModelCoverage) -> tuple[str, ...]:
    """The paths of all layers, those without softmax attention too, each once."""
    return tuple(dict.fromkeys(layer.path for layer in coverage.layers))


@contextmanager
def _layer_outputs(model: nn.Module, paths: Sequence[str], watcher: Watcher) -> Iterator[None]:
    turns: Counter[str] = Counter()

    def hook(path: str) -> Any:
        def left(module: nn.Module, given: Any, made: Any) -> None:
            place = CallPlace(path, turns[path])
            turns[path] += 1
            first = first_tensor(made)
            if first is not None:
                watcher.layer(place, first)

        return left

    with ExitStack() as hooks:
        for path in paths:
            module = model.get_submodule(path)
            hooks.callback(module.register_forward_hook(hook(path)).remove)
        yield


def first_tensor(made: Any) -> Tensor | None:
    """The tensor that a layer returns, or the first of several."""
    if isinstance(made, Mapping):
        made = tuple(made.values())
    parts = made if isinstance(made, (tuple, list)) else (made,)
    return next((part for part in parts if isinstance(part, Tensor)), None)
