"""MaskKeeper: the mask that every call was given, each different one once, as an array."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor

from attn_cli.core.model_calls import CallPlace
from attn_cli.models.hf.call import FILL, AttentionCall
from attn_cli.models.hf.seen_tensors import SeenTensors
from attn_cli.torch_arrays import to_numpy

Kind = Literal["bool", "additive", "is_causal", "none", "recovered"]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SeenMask:
    """One mask. `array` (b, h, l, s) broadcasts to (B, H, L, S): True = may attend, or numbers.

    None where no mask was given: then `kind` says whether the backend hides later keys by itself,
    counted from the upper left. "recovered": True where the masked scores of a call that was seen
    at its softmax are above −1e4, with `fill` their smallest number.
    """

    kind: Kind
    array: NDArray[Any] | None
    dtype: str
    shape: tuple[int, ...]
    batch: int
    queries: int
    keys: int
    fill: float | None = None


@dataclass(slots=True)
class MaskKeeper:
    """Observer: `masks` in the order in which they came, `of` says which of them a call had."""

    masks: list[SeenMask] = field(default_factory=list)
    of: dict[CallPlace, int] = field(default_factory=dict)
    _known: dict[str, int] = field(default_factory=dict)
    _seen: SeenTensors[int] = field(default_factory=SeenTensors)

    def see(self, call: AttentionCall) -> None:
        index = partial(self._index, call)
        mask = call.mask
        self.of[call.facts.place] = index() if mask is None else self._seen.of(mask, index)

    def _index(self, call: AttentionCall, *_: Tensor) -> int:
        mask = _seen(call)
        digest = hashlib.sha256(b"" if mask.array is None else mask.array.tobytes()).hexdigest()
        key = repr((mask.kind, mask.dtype, mask.shape, mask.queries, mask.keys, digest))
        if key not in self._known:
            self._known[key] = len(self.masks)
            self.masks.append(mask)
        return self._known[key]


def _seen(call: AttentionCall) -> SeenMask:
    if call.mask is not None:
        return _given(call, call.mask)
    if call.masked is not None:
        return _recovered(call, call.masked)
    return _without(call, "is_causal" if call.facts.causal else "none")


def _given(call: AttentionCall, mask: Tensor) -> SeenMask:
    facts = call.facts
    return SeenMask(
        kind="bool" if mask.dtype == torch.bool else "additive",
        array=to_numpy(mask.clone()),  # a model may write into its mask afterwards
        dtype=str(mask.dtype).removeprefix("torch."),
        shape=tuple(mask.shape) if facts.mask is None else facts.mask.shape,
        batch=facts.batch,
        queries=facts.queries,
        keys=facts.keys,
    )


def _recovered(call: AttentionCall, masked: Tensor) -> SeenMask:
    """What the masked scores of a softmax hide."""
    facts, open_ = call.facts, _narrowest(masked > FILL)
    if bool(open_.all()):
        return _without(call, "none")
    return SeenMask(
        kind="recovered",
        array=to_numpy(open_),
        dtype="",
        shape=tuple(open_.shape),
        batch=facts.batch,
        queries=facts.queries,
        keys=facts.keys,
        fill=float(masked.min()),
    )


def _without(call: AttentionCall, kind: Kind) -> SeenMask:
    facts = call.facts
    return SeenMask(
        kind=kind,
        array=None,
        dtype="",
        shape=(),
        batch=facts.batch,
        queries=facts.queries,
        keys=facts.keys,
    )


def _narrowest(open_: Tensor) -> Tensor:
    """Items and heads that are all alike, as one."""
    for axis in (0, 1):
        first = open_.narrow(axis, 0, 1)
        if bool((open_ == first).all()):
            open_ = first
    return open_
