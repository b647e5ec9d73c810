"""Engines with a fault planted in one stage, whose later stages go on from it; for tests alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.engine import Ask, Capabilities
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.recorder import Recorder
from attn_cli.core.rounding import round_to
from attn_cli.core.trace import ALL_STAGES, Trace
from attn_cli.engines import ENGINES

Array = NDArray[Any]
Fault = Callable[[Array], Array]  # (H, L, ·) of a stage → the same, spoilt

CURRENT: dict[str, Fault] = {}


class FaultyEngine:
    """Attention in float32, written anew; every stage passes through the fault planted in it."""

    name = "faulty"
    can = Capabilities(
        stages=frozenset(ALL_STAGES),
        dtypes=("float32",),
        devices=("cpu",),
        gradients=False,
        copies=9,
    )

    def run(self, inputs: AttentionInputs, ask: Ask) -> Trace:
        recorder = Recorder(self.name, inputs, ask)
        with np.errstate(all="ignore"):
            for b in range(inputs.shape[0]):
                _attend(inputs, b, recorder)
        return recorder.trace()


def _attend(inputs: AttentionInputs, b: int, recorder: Recorder) -> None:
    visible = inputs.visible(b)

    def stage(name: str, array: Array) -> Array:
        spoilt = array.astype(np.float32).copy()
        if name in CURRENT:
            spoilt = CURRENT[name](spoilt)
        recorder.see(b, name, spoilt, visible)
        return spoilt

    q, k, v = (stage(name, getattr(inputs, name)[b]) for name in "qkv")
    group = inputs.shape[1] // inputs.kv_heads
    scores = stage("scores", q @ k.repeat(group, 0).mT)
    scores = stage("scaled", scores * np.float32(inputs.effective_scale))
    if inputs.softcap is not None:
        cap = np.float32(inputs.softcap)
        scores = stage("softcapped", np.tanh(scores / cap) * cap)
    if inputs.has_bias:
        scores = stage("biased", scores + inputs.biased_by(b).astype(np.float32))
    if visible is not None:
        scores = stage("masked", np.where(visible, scores, np.float32(-np.inf)))
    e = np.exp(scores - scores.max(-1, keepdims=True))
    weights = stage("weights", e / e.sum(-1, keepdims=True))
    stage("context", weights @ v.repeat(group, 0))
    recorder.finish_without_weights(b)


@contextmanager
def planted(faults: Mapping[str, Fault]) -> Iterator[None]:
    """Registers the engine `faulty` with these faults for as long as the block lasts."""
    entries = ENGINES.entries
    ENGINES.entries = {**entries, "faulty": f"{__name__}:ENGINE"}
    CURRENT.update(faults)
    try:
        yield
    finally:
        ENGINES.entries = entries
        CURRENT.clear()


def scaled(array: Array) -> Array:
    return array * np.float32(1.01)


def swapped_heads(array: Array) -> Array:
    return array[::-1].copy()


def one_nan(array: Array) -> Array:
    """Of k and v, which have two heads, in key 0, which every row of a causal mask sees."""
    array[1, 0 if len(array) == 2 else 3, 1] = np.nan
    return array


def in_bfloat16(array: Array) -> Array:
    return round_to(array, "bfloat16")


def flipped_cell(array: Array) -> Array:
    """One hidden cell of the masked scores made visible, with a score like others."""
    array[1, 3, 5] = 0.3 if np.isneginf(array[1, 3, 5]) else -np.inf
    return array


FAULTS: dict[str, Fault] = {
    "scale": scaled,
    "heads": swapped_heads,
    "nan": one_nan,
    "bfloat16": in_bfloat16,
}
ENGINE = FaultyEngine()
