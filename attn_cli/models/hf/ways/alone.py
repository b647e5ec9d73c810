"""Alone: a text run plainly, with nothing beside it, and the measured budget of its rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attn_cli.core.model_calls import CallPlace
from attn_cli.errors import InputError
from attn_cli.models.hf.call import AttentionCall
from attn_cli.models.hf.inputs import ModelInputs
from attn_cli.models.hf.loaded import LoadedModel
from attn_cli.models.hf.ways.gaps import Gap, call_gaps, tensor_gap
from attn_cli.models.hf.ways.noise import noisy
from attn_cli.models.hf.ways.running import run
from attn_cli.models.hf.ways.spans import Span, Spans

Array = NDArray[Any]
Key = tuple[str, str]  # "call", "layer" or "output", and its path or name
LIMIT = 16 << 30  # bytes that one run may keep
RUNS = 3
FACTOR = 3.0
ULPS = 2.0
WHOLE = Spans(Span(), Span())


@dataclass(slots=True)
class Record:
    """Watcher: keeps a run, in the model's own precision; scores are made again when asked for.

    InputError where more than `left` bytes would be kept.
    """

    calls: dict[Key, AttentionCall] = field(default_factory=dict)
    tensors: dict[Key, Tensor] = field(default_factory=dict)
    order: dict[Key, int] = field(default_factory=dict)
    left: int = LIMIT

    def see(self, call: AttentionCall) -> None:
        key = ("call", str(call.facts.place))
        # clone: a model may write into its tensors afterwards, as a cache does
        own: dict[str, Any] = {
            name: tensor.clone()
            for name in ("q", "k", "v", "masked", "weights", "context")
            if isinstance(tensor := getattr(call, name), Tensor)
        }
        self._count(key, own.values())
        self.calls[key] = replace(call, **own)
        self.order[key] = len(self.order)

    def layer(self, place: CallPlace, output: Tensor) -> None:
        self._keep(("layer", str(place)), output)

    def output(self, name: str, output: Tensor) -> None:
        self._keep(("output", name), output)

    def _count(self, key: Key, kept: Iterable[Tensor]) -> None:
        self.left -= sum(tensor.numel() * tensor.element_size() for tensor in kept)
        if self.left < 0:
            raise InputError(
                f"the stages of {key[1]} and those before it do not fit into {LIMIT >> 30} GiB",
                hint="give a shorter text",
            )

    def _keep(self, key: Key, tensor: Tensor) -> None:
        self._count(key, [tensor])
        self.tensors[key] = tensor.clone()
        self.order[key] = len(self.order)


@dataclass(frozen=True, slots=True, eq=False)
class Alone:
    """A text's plain run, and how far rounding may move each stage: `budgets` (heads,) by stage."""

    inputs: ModelInputs
    record: Record
    budgets: dict[tuple[Key, str], Array]


def run_alone(loaded: LoadedModel, inputs: ModelInputs, layers: Sequence[str]) -> Alone:
    """The plain run, with its budgets."""
    record = Record()
    run(loaded, inputs, layers, record)
    return measured(loaded, inputs, layers, record)


def measured(
    loaded: LoadedModel,
    inputs: ModelInputs,
    layers: Sequence[str],
    record: Record,
    around: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Alone:
    """A recorded run with the budgets that RUNS noisy ones of the same input measure.

    The budget of a stage and head is FACTOR times the farthest that any number of it moved in the
    noisy runs, plus ULPS units in the last place of its largest. `around` is entered before each.
    """
    spread = Spread(record)
    for seed in range(RUNS):
        with around(), noisy(loaded.model, seed):
            run(loaded, inputs, layers, spread)
    eps = max(torch.finfo(getattr(torch, name)).eps for name in (loaded.dtype, "float32"))
    budgets = {
        key: FACTOR * far + ULPS * eps * spread.sizes[key] for key, far in spread.far.items()
    }
    return Alone(inputs, record, budgets)


@dataclass(slots=True)
class Spread:
    """Watcher: how far runs of the same input are from the recorded one."""

    record: Record
    far: dict[tuple[Key, str], Array] = field(default_factory=dict)
    sizes: dict[tuple[Key, str], Array] = field(default_factory=dict)

    def see(self, call: AttentionCall) -> None:
        key = ("call", str(call.facts.place))
        if (alone := self.record.calls.get(key)) is not None:
            self._add(key, call_gaps(alone, call, WHOLE))

    def layer(self, place: CallPlace, output: Tensor) -> None:
        self._tensor(("layer", str(place)), "layer output", output)

    def output(self, name: str, output: Tensor) -> None:
        self._tensor(("output", name), "output", output)

    def _tensor(self, key: Key, stage: str, seen: Tensor) -> None:
        alone = self.record.tensors.get(key)
        if alone is not None and alone.shape == seen.shape:
            self._add(key, [tensor_gap(stage, rows_first(alone), rows_first(seen), 0)])

    def _add(self, key: Key, gaps: Sequence[Gap] | Iterator[Gap]) -> None:
        for gap in gaps:
            at = key, gap.stage
            farthest = gap.far.max(-1, initial=0.0)
            self.far[at] = np.maximum(self.far.get(at, 0.0), farthest)
            self.sizes[at] = np.maximum(self.sizes.get(at, 0.0), gap.size)


def rows_first(tensor: Tensor) -> Tensor:
    """(B, rows, …) as (B, 1, rows, d)."""
    if tensor.ndim < 3:
        return tensor.reshape(tensor.shape[0] if tensor.ndim else 1, 1, 1, -1)
    return tensor.flatten(2).unsqueeze(1)
