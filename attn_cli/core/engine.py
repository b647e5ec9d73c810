"""The Engine protocol: what an engine is asked for, what it can do, and how it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.demands import demands
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.statistics import Statistic
from attn_cli.core.steps import sources, steps
from attn_cli.core.trace import Trace
from attn_cli.errors import UnsupportedError


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """One stage of one batch item as an engine passes by: (H, L, S), context (H, L, d_v).

    `visible` (H, L, S) says which keys take part; None: all do. The array is not kept: copy what
    must last.
    """

    stage: str
    batch: int
    array: NDArray[Any]
    visible: NDArray[np.bool_] | None


GPU = ("cuda",)

Watcher = Callable[[Seen], None]
Progress = Callable[[int, int], None]  # done, total


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a run must leave behind.

    `keep`: stages to hold in the trace. `watch`: callbacks that see a stage of one batch item and
    let it go. `top`: how many of each row's best keys. `cosine`: compare the heads pairwise.
    `received`: add up the weight that every key receives. `block`: how many queries and keys a tile
    has, for an engine that works in tiles; None leaves it to the engine. `progress` is told how far
    the run is, in steps of the engine's own: rows of all heads where it works in tiles.
    """

    keep: frozenset[str] = frozenset()
    watch: Mapping[str, Sequence[Watcher]] = field(default_factory=dict)
    stats: Sequence[Statistic] = ()
    top: int = 0
    cosine: bool = False
    received: bool = False
    block: int | None = None
    dtype: str = "float64"
    device: str = "cpu"
    progress: Progress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What an engine can do; asked for more it refuses and names one that can.

    `gradients` says whether attn can differentiate it. `stages` are those it ever shows; `hides`
    says which of them it does not show of one input. With weights come statistics, top keys and
    cosines; `tiles` says that statistics, top keys and the weight that keys receive come without
    them, tile by tile, with no (H, L, S) in memory: then `memory` (inputs, ask) says how many bytes
    a run takes beside its inputs, and `copies` counts nothing. `empty_row` is what stands in the
    weights and the context of a row that sees no key (NaN reaches every head of the query).
    `refuses` maps what an input may demand (`core/demands.py`) to why this engine cannot do it; it
    does all others.
    """

    stages: frozenset[str]
    dtypes: tuple[str, ...]
    devices: tuple[str, ...]  # families: "cpu", "cuda", "mps"; "any" for whatever torch has
    gradients: bool
    copies: int  # how many (H, L, S) of a batch item are in work at the peak, checks included
    tiles: bool = False
    memory: Callable[[AttentionInputs, Ask], int] | None = None
    lse: bool = True
    empty_row: float = 0.0
    refuses: Mapping[str, str] = field(default_factory=dict)
    hides: Callable[[AttentionInputs], frozenset[str]] | None = None

    def shows(self, inputs: AttentionInputs) -> frozenset[str]:
        """The stages that a run on `inputs` can leave behind."""
        return self.stages if self.hides is None else self.stages - self.hides(inputs)

    def rows(self, inputs: AttentionInputs) -> bool:
        """Whether a run on `inputs` can leave statistics of its rows behind."""
        return self.tiles or "weights" in self.shows(inputs)

    def known(self, inputs: AttentionInputs) -> frozenset[str]:
        """The stages that can be asked for: those it shows, and those that equal one of them."""
        taken = {step.stage for step in steps(inputs, "float64", self.shows(inputs))}
        return frozenset(sources(inputs, taken))


class Engine(Protocol):
    """Computes attention. What `--list engines` says of it is the docstring of its entry, or where
    it has none that of its module."""

    name: str
    can: Capabilities

    def run(self, inputs: AttentionInputs, ask: Ask) -> Trace: ...


def require(
    engine: Engine,
    inputs: AttentionInputs,
    ask: Ask,
    *,
    others: Callable[[], Sequence[Engine]],
) -> None:
    """Raises UnsupportedError where `engine` cannot do what is asked; names engines that can."""
    reason = refusal(engine, inputs, ask)
    if reason is not None:
        able = [other.name for other in others() if refusal(other, inputs, ask) is None]
        raise UnsupportedError(reason, hint=_instead(able))


def _instead(able: Sequence[str]) -> str:
    *first, last = able or [""]
    return f"use --engine {', '.join(first)}{' or ' if first else ''}{last}" if last else ""


def refusal(engine: Engine, inputs: AttentionInputs, ask: Ask) -> str | None:
    """Why `engine` does not do what is asked; None where it does."""
    return next(_refusals(engine, inputs, ask), None)


def _refusals(engine: Engine, inputs: AttentionInputs, ask: Ask) -> Iterator[str]:
    can, name = engine.can, f"engine {engine.name}"
    if can.devices != ("any",) and ask.device.split(":")[0] not in can.devices:
        needs = "needs a GPU: it " if can.devices == GPU else ""
        yield f"{name} {needs}runs on {', '.join(can.devices)}, not on {ask.device}"
    if ask.dtype not in can.dtypes:
        yield f"{name} does not compute in {ask.dtype} (it does in {', '.join(can.dtypes)})"
    for demand, words in demands(inputs):
        if demand in can.refuses:
            yield f"{name} does not take {words}: {can.refuses[demand]}"
    shown = [step.stage for step in steps(inputs, ask.dtype, can.shows(inputs))]
    for stage in sorted(ask.keep - can.known(inputs)):
        yield f"{name} does not show {stage} (it shows {', '.join(shown)})"
    if (ask.stats or ask.top or ask.cosine or ask.received) and not can.rows(inputs):
        yield f"{name} does not show its weights, so it has no statistics of its rows"
    if ask.cosine and can.tiles:
        yield f"{name} does not compare heads: that takes whole rows of weights of all of them"
    if ask.block is not None and not can.tiles:
        yield f"{name} does not work in tiles, so there is no block to choose"
