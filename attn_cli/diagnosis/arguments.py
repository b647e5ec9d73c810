"""Arguments: a question in the layout, the mask convention and the dtypes that the code takes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.masks import BoolArray
from attn_cli.core.rounding import PRECISIONS
from attn_cli.diagnosis.plan import MASK_KINDS, MaskSpec, Plan
from attn_cli.diagnosis.question import Question
from attn_cli.errors import InputError, UnsupportedError

Array = NDArray[Any]

SWAPS = {"LBD": (0, 1), "BLHD": (1, 2), "BHDL": (2, 3)}  # layout → what it swaps of BLD or BHLD


def call_of(
    plan: Plan, question: Question, *, dtype: str, weights: dict[str, Array], repeat: int = 1
) -> dict[str, Any]:
    """One call for the worker (see host.calling.run_calls); several steps where a cache is kept.

    `weights` are the matrices (in, out) of a function that takes them as arguments. Raises
    UnsupportedError where the mask has no form that the code takes.
    """
    ends = np.cumsum(question.steps or (question.shape[2],)).tolist()
    steps = [
        _step(plan, question, dtype, weights, start, end)
        for start, end in zip([0, *ends[:-1]], ends, strict=True)
    ]
    call: dict[str, Any] = {"steps": steps, "repeat": repeat}
    if len(steps) > 1:
        call["carry"] = {"arg": plan.intent.cache_arg, "where": cache_place(plan)}
    return call


def cache_place(plan: Plan) -> int | str | None:
    """Where the cache is in what the code returns; InputError where the plan does not say."""
    if plan.intent.cache_arg is None or "cache" not in plan.call.returns:
        raise InputError(
            "the plan says of no cache: expected intent.cache_arg and cache in call.returns",
            hint='say --returns "out, cache"',
        )
    index = plan.call.returns.index("cache")
    if plan.call.keys is not None:
        return plan.call.keys[index]
    return index if len(plan.call.returns) > 1 else None


def _step(
    plan: Plan, question: Question, dtype: str, weights: dict[str, Array], start: int, end: int
) -> dict[str, Any]:
    """The arguments of tokens start … end − 1; all of them where there is but one step."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for entry in plan.call.inputs:
        name, _, role = entry.rpartition("=")
        value = _input(role, question, weights, start, end)
        if name:
            kwargs[name] = value
        else:
            args.append(value)
    kwargs |= {name: {"value": value} for name, value in plan.call.constants.items()}
    if (spec := plan.call.mask) is not None:
        keep, bias = question.keep, question.bias
        if question.steps:
            keep, bias = (_part(array, start, end) for array in (keep, bias))
        if (mask := mask_argument(spec, keep, bias, dtype, question.shape)) is not None:
            kwargs[spec.arg] = mask
    return {"args": args, "kwargs": kwargs}


def _input(
    role: str, question: Question, weights: dict[str, Array], start: int, end: int
) -> dict[str, Any]:
    if role in weights:
        return {"array": weights[role], "as": "float"}
    if role == "positions":
        batch, _, _, _ = question.shape
        positions = np.arange(start, end)
        flat = question.layout in ("LD", "HLD")
        return {"array": positions if flat else np.tile(positions, (batch, 1)), "as": "int"}
    array = question.given[role]
    if question.steps:
        array = array[..., start:end, :]
    return {"array": to_layout(array, question.layout), "as": "float"}


def _part(array: Any, start: int, end: int) -> Any:
    """The rows of a step, and the keys up to its end."""
    if array is None:
        return None
    rows = array if array.shape[2] == 1 else array[:, :, start:end]
    return rows[..., :end]


def to_layout(array: Array, layout: str) -> Array:
    """(B, n, d), or (B, H, n, d) where the layout has heads, in that layout.

    BCHW lays the n tokens out in rows, as square as n allows.
    """
    if layout in ("LD", "HLD"):
        if len(array) != 1:
            raise UnsupportedError(
                f"layout {layout} has no batch, and {len(array)} items are asked"
            )
        item: Array = array[0]
        return item
    if layout == "BCHW":
        height, width = rectangle(array.shape[1])
        return array.swapaxes(1, 2).reshape(len(array), -1, height, width)
    return swapped(array, layout)


def swapped(array: Array, layout: str) -> Array:
    """From attn's order of axes to that of a layout that swaps two of them; and back again."""
    return array.swapaxes(*SWAPS[layout]) if layout in SWAPS else array


def rectangle(count: int) -> tuple[int, int]:
    """Height and width of `count` pixels, the height at most the width.

    >>> rectangle(6), rectangle(7)
    ((2, 3), (1, 7))
    """
    height = max(n for n in range(1, math.isqrt(count) + 1) if count % n == 0)
    return height, count // height


def mask_argument(
    spec: MaskSpec,
    keep: BoolArray | None,
    bias: Array | None,
    dtype: str,
    shape: tuple[int, int, int, int],
) -> dict[str, Any] | None:
    """The mask as the code takes it; None where nothing is masked."""
    axes, means = MASK_KINDS[spec.kind]
    if means == "bias":
        return None if bias is None else {"array": _axes(bias, axes, spec, shape), "as": "float"}
    if keep is None:
        return None
    seen = _axes(keep, axes, spec, shape)
    if means == "additive":
        return {"array": np.where(seen, 0.0, fill(axes, dtype)), "as": "float"}
    return {"array": seen if means == "keep" else ~seen, "as": spec.dtype}


def fill(axes: str, dtype: str) -> float:
    """What an additive mask adds to a hidden score: −∞ between queries and keys, where a row that
    sees nothing is odd; a very negative number where padding makes such rows."""
    if axes == "LS":
        return -np.inf
    largest = PRECISIONS[dtype].largest if dtype in PRECISIONS else 1e9
    return max(-1e9, -largest / 2)


def _axes(array: Array, axes: str, spec: MaskSpec, shape: tuple[int, int, int, int]) -> Array:
    """(B, H, L, S) with axes of 1 as the axes of the kind; UnsupportedError where it needs more."""
    letters = axes.replace("1", "")
    sizes = dict(zip("BHLS", shape, strict=True))
    kept = array
    for axis, letter in reversed(list(enumerate("BHLS"))):
        if letter not in letters:
            if kept.shape[axis] != 1:
                raise UnsupportedError(
                    f"{spec.arg} ({spec.kind}) cannot say a mask that differs along {letter}"
                )
            kept = kept.squeeze(axis)
    kept = np.broadcast_to(kept, tuple(sizes[letter] for letter in letters))
    for place, letter in enumerate(axes):
        if letter == "1":
            kept = np.expand_dims(kept, place)
    return np.ascontiguousarray(kept)
