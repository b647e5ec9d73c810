"""Mask axes: which axes of the scores do the axes of an array stand for?"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from attn_cli.errors import InputError, MisfitError

Array = NDArray[Any]
Axes = tuple[str, ...]
Shape = tuple[int, int, int, int]  # (B, H, L, S)

SCORES: Axes = ("batch", "head", "query", "key")
_FULL: Axes = SCORES
_MERGED: Axes = ("batch·head", "query", "key")  # torch.nn.MultiheadAttention's 3-D attn_mask
_GENERAL: tuple[Axes, ...] = (
    ("key",),
    ("query", "key"),
    ("batch", "key"),
    ("batch", "query", "key"),
    ("head", "query", "key"),
    _MERGED,
    _FULL,
)
_READINGS = {
    "bias": (("query", "key"), ("head", "query", "key"), _FULL),
    "key_padding_mask": (("key",), ("batch", "key"), _FULL),
    "padding_mask": (("key",), ("batch", "key"), _FULL),
}


def over_scores(
    array: Array, scores: Shape, role: str, label: str, told: str | None = None
) -> tuple[Array, Axes]:
    """The array with four axes that broadcast to the scores (B, H, L, S), and its own axes' names.

    `told` is "query,key", "batch,key", … and holds for arrays with as many axes. Raises InputError
    where no reading fits, or where two fit that differ.
    """
    readings = [axes for axes in _READINGS.get(role, _GENERAL) if len(axes) == array.ndim]
    if told is not None and (chosen := tuple(told.split(","))) in readings:
        readings = [chosen]
    fitting = [axes for axes in readings if _fits(array.shape, axes, scores)]
    placed = {_placed(array.shape, axes, scores): axes for axes in reversed(fitting)}
    if not placed:
        raise _does_not_fit(array.shape, scores, role, label)
    if len(placed) > 1:
        raise _ambiguous(array.shape, list(reversed(placed.values())), label)
    (shape, axes), *_ = placed.items()
    return array.reshape(shape), axes


def _fits(shape: tuple[int, ...], axes: Axes, scores: Shape) -> bool:
    sizes = _sizes(scores)
    if axes == ("key",):
        return shape[0] in (1, sizes["key"])
    if axes == _MERGED and 1 in scores[:2]:
        return False  # then (batch, …) or (head, …) says the same
    return all(size in (1, sizes[axis]) for size, axis in zip(shape, axes, strict=True))


def _placed(shape: tuple[int, ...], axes: Axes, scores: Shape) -> tuple[int, ...]:
    if axes == _MERGED and shape[0] > 1:
        return (*scores[:2], *shape[1:])
    named = dict(zip(axes, shape, strict=True))
    return tuple(named.get(axis, 1) for axis in SCORES)


def _sizes(scores: Shape) -> dict[str, int]:
    return {**dict(zip(SCORES, scores, strict=True)), "batch·head": scores[0] * scores[1]}


def _does_not_fit(shape: tuple[int, ...], scores: Shape, role: str, label: str) -> InputError:
    sizes = _sizes(scores)
    expected = [
        f"({', '.join(axes)}) {tuple(sizes[axis] for axis in axes)}"
        for axes in _READINGS.get(role, _GENERAL)
        if len(axes) == len(shape) and axes != _MERGED
    ]
    full = f"({', '.join(SCORES)})"
    return MisfitError(
        f"{label} has shape {shape}, which does not broadcast to the scores' {scores} {full}",
        hint=f"expected {' or '.join(expected)}" if expected else f"expected up to {full}",
    )


def _ambiguous(shape: tuple[int, ...], readings: list[Axes], label: str) -> InputError:
    words = [",".join(axes) for axes in readings]
    ways = " and ".join(f"({axes.replace(',', ', ')})" for axes in words)
    return InputError(
        f"{label} has shape {shape}, which fits {ways}",
        hint=f"pass {' or '.join(f'--mask-axes {axes}' for axes in words)}",
    )
