"""What is timed: one engine on seeded numbers of one length, or why it is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.engine import Ask, Engine, refusal
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.masks import Mask
from attn_cli.core.memory import size
from attn_cli.core.results_bench import REFERENCE
from attn_cli.core.trace import SCORE_STAGES
from attn_cli.engines import ENGINES
from attn_cli.errors import AttnError, UnsupportedError
from attn_cli.stats import STATISTICS
from attn_cli.workflows.bench_device import free_bytes
from attn_cli.workflows.bench_options import BenchOptions

Array = NDArray[Any]
HELD_AS = {"float64": "float64", "float16": "float16"}  # others lie in float32
MATH_COPIES = 4  # (H, L, S) at once in PyTorch's plain kernel: scores, weights and a mask to add
MASK_COPIES = 4  # (L, S) of bytes while a mask is evaluated


class TooLarge(AttnError):
    """The run would not fit in memory, so it is not begun."""


@dataclass(frozen=True, slots=True)
class Subject:
    """`run` does it once and returns what comes out; `kernel` is PyTorch's, where one was asked."""

    run: Callable[[], object]
    kernel: str | None


def prepared(name: str, options: BenchOptions, length: int, *, processes: int) -> Subject:
    """The engine called `name` with its inputs made, so that nothing but the run is left.

    `processes` hold inputs of this length at the same time, this one counted. UnsupportedError says
    what the engine does not do, TooLarge what there is no room for; both before anything is made.
    """
    engine, blank = ENGINES[name], _blank(options, length)
    ask = _ask(engine, blank, options)
    if reason := refusal(engine, blank, ask):
        raise UnsupportedError(reason)
    arrays = sum(array.nbytes for array in (blank.q, blank.k, blank.v))
    _require(arrays * processes + _needed(engine, blank, ask, options), options)
    inputs = _drawn(options, length)
    if not is_bare(name):
        return Subject(lambda: engine.run(inputs, ask), None)
    from attn_cli.engines.torch_sdpa import bare_call

    run, kernel = bare_call(
        inputs, name, device=options.device, dtype=options.dtype, is_causal=is_causal(options)
    )
    return Subject(run, kernel)


def is_bare(name: str) -> bool:
    """Whether PyTorch's function itself is timed, not attn's engine around it."""
    return name.partition(":")[0] == REFERENCE


def is_causal(options: BenchOptions) -> bool:
    """Whether the mask is what SDPA's own `is_causal` is: then it needs no array."""
    return str(options.mask) == "causal"


def computes(name: str, options: BenchOptions) -> str:
    """What a run of the engine leaves behind, in words."""
    engine = ENGINES[name]
    if is_bare(name):
        return "the output alone"
    can = engine.can
    if can.stages.issuperset(SCORE_STAGES):
        return "every stage, all statistics"
    if can.rows(_blank(options, 1)):
        return "the output, all statistics" if can.tiles else "weights, output, all statistics"
    return "the output, lse" if can.lse else "the output alone"


def _ask(engine: Engine, inputs: AttentionInputs, options: BenchOptions) -> Ask:
    """All that an engine can tell of every row, and the context."""
    rows = not is_bare(engine.name) and engine.can.rows(inputs)
    return Ask(
        keep=frozenset({"context"}),
        stats=[STATISTICS[name] for name in STATISTICS] if rows else (),
        dtype=options.dtype,
        device=options.device,
    )


def _blank(options: BenchOptions, length: int) -> AttentionInputs:
    """Inputs of the right shapes that take no memory."""
    zero = np.zeros((), HELD_AS.get(options.dtype, "float32"))
    q, k, v = (np.broadcast_to(zero, shape) for shape in _shapes(options, length))
    return AttentionInputs(q, k, v, mask=_mask(options, length))


def _drawn(options: BenchOptions, length: int) -> AttentionInputs:
    """Standard normal numbers; the same in every process."""
    rng, held = np.random.default_rng(options.seed), HELD_AS.get(options.dtype, "float32")
    wide = "float64" if held == "float64" else "float32"
    q, k, v = (
        rng.standard_normal(shape, dtype=np.dtype(wide).type).astype(held, copy=False)
        for shape in _shapes(options, length)
    )
    return AttentionInputs(q, k, v, mask=_mask(options, length))


def _shapes(options: BenchOptions, length: int) -> list[tuple[int, int, int, int]]:
    return [
        (1, options.heads, length, options.d_k),
        (1, options.shared_heads, length, options.d_k),
        (1, options.shared_heads, length, options.value_width),
    ]


def _mask(options: BenchOptions, length: int) -> Mask | None:
    return options.built_mask(length)


def _needed(engine: Engine, inputs: AttentionInputs, ask: Ask, options: BenchOptions) -> int:
    """Bytes of a run beside its inputs, about."""
    if engine.can.memory is not None:
        return engine.can.memory(inputs, ask)
    _, heads, queries, keys = inputs.shape
    if not is_bare(engine.name):
        itemsize = 8 if ask.dtype == "float64" else 4
        return heads * queries * keys * itemsize * engine.can.copies
    need = 2 * inputs.v.nbytes + inputs.q.nbytes
    if inputs.mask is not None and not is_causal(options):
        need += queries * keys * (MASK_COPIES + inputs.q.itemsize)
    if _takes_math(engine.name, inputs):
        need += heads * queries * keys * inputs.q.itemsize * MATH_COPIES
    return need


def _takes_math(name: str, inputs: AttentionInputs) -> bool:
    """Whether the kernel holds the whole matrix of scores; fused ones want one width."""
    return name.endswith(":math") or inputs.q.shape[3] != inputs.v.shape[3]


def _require(need: int, options: BenchOptions) -> None:
    free = free_bytes(options.device)
    if free is not None and need > math.floor(free):
        raise TooLarge(f"it needs about {size(need)} of memory, and {size(free)} are free")
