"""What `attn diff` was asked for, and LEFT-vs-RIGHT taken apart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from attn_cli.core.difference import Tolerance
from attn_cli.core.names import INPUT_WORDS, STAGE_WORDS
from attn_cli.core.registry import unknown_name
from attn_cli.core.results_diff import SIDES, Side
from attn_cli.core.rounding import precision
from attn_cli.core.settings import Choices
from attn_cli.engines import ENGINES
from attn_cli.errors import InputError

BETWEEN = "-vs-"
MAPPED = tuple(dict.fromkeys((*STAGE_WORDS, *INPUT_WORDS)))
DEFAULT_SHAPE = (2, 4, 48, 32)  # items, heads, length and width differ, so that none hides another


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions:
    """What `attn diff` was asked for.

    `shape` and `seed` make the input where none is given. `map` (theirs → ours), `layout` (by
    side) and `computed` (precision by side) read dumps. `stages`: compare these alone.
    """

    choices: Choices = field(default_factory=Choices)
    dtype: str = "float64"
    device: str = "cpu"
    context: str | None = None
    weights: str | None = None
    shape: tuple[int, int, int, int] | None = None
    map: Mapping[str, str] = field(default_factory=dict)
    layout: Mapping[Side, str] = field(default_factory=dict)
    computed: Mapping[Side, str] = field(default_factory=dict)
    stages: tuple[str, ...] = ()
    tolerance: Tolerance = field(default_factory=Tolerance)


@dataclass(frozen=True, slots=True)
class EngineSide:
    """One side of LEFT-vs-RIGHT: an engine and the precision it computes in."""

    engine: str
    dtype: str


def engine_sides(text: str, dtype: str) -> tuple[EngineSide, EngineSide]:
    """The sides of `LEFT-vs-RIGHT`, each ENGINE[@DTYPE]; `dtype` where a side names none.

    Raises InputError, with the engine that was meant, where it is something else.

    >>> engine_sides("numpy-vs-torch@float16", "float64")[1]
    EngineSide(engine='torch', dtype='float16')
    """
    parts = text.split(BETWEEN)
    if len(parts) != 2 or not all(parts):
        raise InputError(
            f"{text!r} is no file and not LEFT-vs-RIGHT",
            hint="two engines are written numpy-vs-torch or numpy-vs-torch@bfloat16; "
            f"engines: {', '.join(ENGINES)}",
        )
    left, right = (_side(part, dtype) for part in parts)
    return left, right


def _side(text: str, dtype: str) -> EngineSide:
    engine, at, own = text.partition("@")
    if engine not in ENGINES:
        ENGINES[engine]  # raises with the name that was meant
    if at and not own:
        raise InputError(f"{text!r} ends where a precision is expected", hint="torch@bfloat16")
    chosen = precision(own or dtype).name
    return EngineSide(engine, chosen)


def by_side(option: str, text: str | None, known: tuple[str, ...] | None) -> dict[Side, str]:
    """A value for each side, out of "VALUE" for both or "left=VALUE,right=VALUE".

    `known` are the values that there are; None for precisions, tf32 among them.

    >>> by_side("--layout", "right=blhd", ("bhld", "blhd")), by_side("--computed", "tf32", None)
    ({'right': 'blhd'}, {'left': 'tf32', 'right': 'tf32'})
    """
    chosen: dict[Side, str] = {}
    for part in [] if text is None else text.split(","):
        name, equals, value = part.strip().rpartition("=")
        if equals and name not in SIDES:
            raise InputError(
                f"{option} has {part.strip()!r}: expected left=… or right=…",
                hint=f"{option} {value} is for both sides",
            )
        if known is None:
            precision(value)
        elif value not in known:
            raise InputError(f"{option} is {value!r}: expected {' or '.join(known)}")
        chosen |= {side: value for side in SIDES if not equals or side == name}
    return chosen


def name_map(given: Iterable[str]) -> dict[str, str]:
    """theirs → attn's word, out of "theirs=ours" parts; theirs may begin with "left:".

    >>> name_map(["logits=scaled,right:p=weights"])
    {'logits': 'scaled', 'right:p': 'weights'}
    """
    found: dict[str, str] = {}
    for part in (part for text in given for part in text.split(",")):
        theirs, equals, ours = (word.strip() for word in part.rpartition("="))
        if not (equals and theirs and ours):
            raise InputError(f"--map has {part!r}: expected THEIRS=OURS", hint="logits=scaled")
        if ours not in MAPPED:
            raise unknown_name("stage or input", ours, MAPPED)
        if found.get(theirs, ours) != ours:
            raise InputError(f"--map gives {theirs!r} as {found[theirs]} and as {ours}")
        found[theirs] = ours
    return found


def tolerance(atol: float | None, rtol: float | None) -> Tolerance:
    """What --atol and --rtol say; InputError for what is no distance."""
    for name, value in (("--atol", atol), ("--rtol", rtol)):
        if value is not None and not (value >= 0 and math.isfinite(value)):
            raise InputError(f"{name} is {value:g}: expected 0 or a positive number")
    return Tolerance(atol, rtol)
