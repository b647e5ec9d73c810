"""Room: whether a run fits in memory, and which engine takes how much where it does not."""

from __future__ import annotations

from dataclasses import replace

from attn_cli.core.engine import Ask, Engine, refusal, require
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.memory import available_bytes, dense_bytes, require_dense, size
from attn_cli.core.trace import SCORE_STAGES
from attn_cli.engines import ENGINES
from attn_cli.errors import InputError

IN_TILES = "tiled"


def in_tiles(engine: str) -> bool:
    """Whether this is an engine that works in tiles, row block by row block; loads none."""
    return engine == IN_TILES


def engine_for(ask: Ask, name: str, inputs: AttentionInputs) -> Engine:
    """The engine called `name`; raises where it cannot do what is asked or has no room for it.

    An engine that holds a query × key matrix which does not fit is refused with the memory that it
    takes, and the engine that works in tiles is named with what that takes.
    """
    engine = ENGINES[name]
    require(
        engine, inputs, ask, others=lambda: [ENGINES[other] for other in ENGINES if other != name]
    )
    if engine.can.tiles:
        _check_tiles(engine, inputs, ask)
    else:
        _check_dense(engine, inputs, ask)
    return engine


def bytes_of(engine: Engine, inputs: AttentionInputs, ask: Ask) -> int:
    """What a run takes beside its inputs."""
    if engine.can.memory is not None:
        return engine.can.memory(inputs, ask)
    return dense_bytes(
        inputs.shape, copies=engine.can.copies, kept=_kept(ask), itemsize=_itemsize(ask)
    )


def _check_tiles(engine: Engine, inputs: AttentionInputs, ask: Ask) -> None:
    need, free = bytes_of(engine, inputs, ask), available_bytes()
    if free is not None and need > free:
        raise InputError(
            f"engine {engine.name} takes about {size(need)} beside the input, and {size(free)} are "
            "free",
            hint="give fewer tokens or heads",
        )


def _check_dense(engine: Engine, inputs: AttentionInputs, ask: Ask) -> None:
    try:
        require_dense(
            inputs.shape,
            copies=engine.can.copies,
            kept=_kept(ask),
            itemsize=_itemsize(ask),
            available=available_bytes(),
        )
    except InputError as error:
        raise InputError(
            f"engine {engine.name}: {error.message}", _instead(inputs, ask) or error.hint
        ) from error


def _instead(inputs: AttentionInputs, ask: Ask) -> str:
    """The engine that works in tiles and what it takes; nothing where it cannot do what is asked.

    It keeps no query × key stages and compares no heads.
    """
    tiled = ENGINES[IN_TILES]
    asked = replace(ask, cosine=False, keep=ask.keep & tiled.can.known(inputs))
    if refusal(tiled, inputs, asked) is not None:
        return ""
    need, free = bytes_of(tiled, inputs, asked), available_bytes()
    if free is not None and need > free:
        return f"even --engine {IN_TILES} takes about {size(need)}: give fewer tokens or heads"
    return (
        f"--engine {IN_TILES} takes about {size(need)} beside the input: it has the same output "
        "and rows, and of single rows the weights"
    )


def _kept(ask: Ask) -> int:
    return len(ask.keep & frozenset(SCORE_STAGES))


def _itemsize(ask: Ask) -> int:
    return 8 if ask.dtype == "float64" else 4
