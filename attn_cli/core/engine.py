"""The Engine protocol: what an engine is asked for, what it can do, and how it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.statistics import Statistic
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


Watcher = Callable[[Seen], None]
Progress = Callable[[int, int], None]  # done, total


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a run must leave behind.

    `keep`: stages to hold in the trace. `watch`: callbacks that see a stage of one batch item and
    let it go. `top`: how many of each row's best keys. `cosine`: compare the heads pairwise.
    """

    keep: frozenset[str] = frozenset()
    watch: Mapping[str, Sequence[Watcher]] = field(default_factory=dict)
    stats: Sequence[Statistic] = ()
    top: int = 0
    cosine: bool = False
    dtype: str = "float64"
    device: str = "cpu"
    progress: Progress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What an engine can do; asked for more it refuses and names one that can."""

    stages: frozenset[str]
    dtypes: tuple[str, ...]
    devices: tuple[str, ...]  # families: "cpu", "cuda", "mps"; "any" for whatever torch has
    gradients: bool
    copies: int  # how many (H, L, S) of a batch item are in work at the peak, checks included


class Engine(Protocol):
    """Computes attention; `summary` is one line for `--list engines`."""

    name: str
    summary: str
    can: Capabilities

    def run(self, inputs: AttentionInputs, ask: Ask) -> Trace: ...


def require(engine: Engine, ask: Ask, *, others: Callable[[], Sequence[Engine]]) -> None:
    """Raises UnsupportedError where `engine` cannot do what is asked; names engines that can."""
    if ask.dtype not in engine.can.dtypes:
        able = [other.name for other in others() if ask.dtype in other.can.dtypes]
        raise UnsupportedError(
            f"engine {engine.name} does not compute in {ask.dtype} "
            f"(it does in {', '.join(engine.can.dtypes)})",
            hint=_instead("--engine", able),
        )
    family = ask.device.split(":")[0]
    if engine.can.devices != ("any",) and family not in engine.can.devices:
        able = [o.name for o in others() if o.can.devices == ("any",) or family in o.can.devices]
        raise UnsupportedError(
            f"engine {engine.name} runs on {', '.join(engine.can.devices)}, not on {ask.device}",
            hint=_instead("--engine", able),
        )


def _instead(option: str, names: list[str]) -> str:
    return f"use {option} {' or '.join(names)}" if names else ""
