"""Layouts of dumped stages: which axis is what, found from all arrays of a dump at once.

One array of four axes may be (batch, head, length, width) or (batch, length, head, width). The
sizes of the others tell which: all must have the same batch, heads and lengths.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from attn_cli.core.layer import split_heads
from attn_cli.errors import InputError

Array = NDArray[Any]
Sizes = Mapping[str, int]  # of B, H, Hkv, L, S, d_k, d_v, by those letters

OF_KEYS = ("k", "k_rotated", "v")
OVER_KEYS = ("scores", "scaled", "softcapped", "biased", "masked", "weights")
WITHOUT_HEADS = ("x", "x_positions", "merged", "output")
MOST_SOLUTIONS = 2000  # that are looked at: by far enough to see that there is more than one


@dataclass(frozen=True, slots=True)
class Axes:
    """One way to read an array: a layout such as "bhld", "b·hld", "bl(h·d)", and its sizes."""

    layout: str
    sizes: Sizes


@dataclass(frozen=True, slots=True)
class Solution:
    """One way to read all arrays: role → its axes, and the sizes that they share."""

    axes: Mapping[str, Axes]
    sizes: Sizes


def find_layouts(
    shapes: Mapping[str, tuple[int, ...]],
    *,
    layout: str | None,
    known: Sizes,
    source: str,
) -> Solution:
    """How the arrays by role are to be read; `known` are sizes that were said.

    `layout` decides for arrays of four axes. Raises InputError where nothing fits, and where four
    axes may be read in two ways.
    """
    solutions = list(_solutions(shapes, layout, known))
    if not solutions:
        shown = ", ".join(f"{role} {shape}" for role, shape in shapes.items())
        raise InputError(
            f"{source}: the shapes do not fit together: {shown}",
            hint="expected (batch, head, length, width), --layout blhd, or heads and batch as one "
            "axis; --heads tells how many heads there are",
        )
    for role in shapes:
        ways = dict.fromkeys(solution.axes[role].layout for solution in solutions)
        two_ways = len(ways) > 1 and set(shapes[role][1:3]) != {1}
        if len(shapes[role]) == 4 and two_ways:
            raise InputError(
                f"{source}: {role} has shape {shapes[role]}, and nothing tells whether heads or "
                "positions come first",
                hint="pass --layout bhld (batch, head, length, width) or --layout blhd "
                "(left=blhd for one side)",
            )
    return min(solutions, key=_splits)


def arranged(array: Array, axes: Axes) -> Array:
    """The array as a trace has it: (B, H, L, d), (B, H, L, S), (B, L, d) or (B, H, L)."""
    sizes, layout = axes.sizes, axes.layout
    if layout == "blhd":
        return array.swapaxes(1, 2)
    if layout == "b·h":
        return array.reshape(sizes["B"], sizes["heads"], *array.shape[1:])
    if layout == "(h·d)":
        return split_heads(array.reshape(sizes["B"], *array.shape[-2:]), sizes["heads"])
    if layout == "one":
        return array.reshape(*([1] * (sizes["axes"] - array.ndim)), *array.shape)
    return array


def _splits(solution: Solution) -> tuple[int, int]:
    """Fewer arrays whose width is cut into heads first, then the fewest items of a batch."""
    cut = sum(axes.layout == "(h·d)" and axes.sizes["heads"] > 1 for axes in solution.axes.values())
    return cut, solution.sizes.get("B", 1)


def _solutions(
    shapes: Mapping[str, tuple[int, ...]], layout: str | None, known: Sizes
) -> Iterator[Solution]:
    """Every consistent reading, up to a number that is enough to see that there are several."""
    ways = {role: list(_readings(role, shape, layout)) for role, shape in shapes.items()}
    order = sorted(ways, key=lambda role: len(ways[role]))
    searched = _search(order, ways, {}, dict(known))
    for axes, sizes in itertools.islice(searched, MOST_SOLUTIONS):
        yield Solution(axes, sizes)


def _search(
    order: list[str],
    ways: Mapping[str, list[Axes]],
    chosen: Mapping[str, Axes],
    sizes: Sizes,
) -> Iterator[tuple[Mapping[str, Axes], Sizes]]:
    if not order:
        yield chosen, sizes
        return
    role, *rest = order
    for way in ways[role]:
        joined = _joined(sizes, way.sizes)
        if joined is not None:
            yield from _search(rest, ways, {**chosen, role: way}, joined)


def _joined(known: Sizes, more: Sizes) -> Sizes | None:
    """Both together; None where they contradict each other. Query heads: a multiple of Hkv."""
    joined = dict(known)
    for name, size in more.items():
        if name not in ("heads", "axes") and joined.setdefault(name, size) != size:
            return None
    heads, kv_heads = joined.get("H"), joined.get("Hkv")
    if heads is not None and kv_heads is not None and heads % kv_heads:
        return None
    return joined


def _readings(role: str, shape: tuple[int, ...], layout: str | None) -> Iterable[Axes]:
    if role in OVER_KEYS:
        return _over_keys(shape)
    if role == "lse":
        return _lse(shape)
    if role in WITHOUT_HEADS:
        return _without_heads(role, shape)
    return _with_heads(role, shape, layout)


def _over_keys(shape: tuple[int, ...]) -> Iterator[Axes]:
    if len(shape) == 4:
        yield Axes("bhls", dict(zip(("B", "H", "L", "S"), shape, strict=True)))
    if len(shape) == 3:
        for batch, heads in _factors(shape[0]):
            sizes = {"B": batch, "H": heads, "heads": heads, "L": shape[1], "S": shape[2]}
            yield Axes("b·h", sizes)
    if len(shape) == 2:
        yield Axes("one", {"B": 1, "H": 1, "L": shape[0], "S": shape[1], "axes": 4})


def _lse(shape: tuple[int, ...]) -> Iterator[Axes]:
    if len(shape) == 3:
        yield Axes("bhl", dict(zip(("B", "H", "L"), shape, strict=True)))
    if len(shape) == 2:
        for batch, heads in _factors(shape[0]):
            yield Axes("b·h", {"B": batch, "H": heads, "heads": heads, "L": shape[1]})


def _without_heads(role: str, shape: tuple[int, ...]) -> Iterator[Axes]:
    if len(shape) == 3:
        yield Axes("bld", {"B": shape[0], "L": shape[1]})
    if len(shape) == 2:
        yield Axes("one", {"B": 1, "L": shape[0], "axes": 3})


def _with_heads(role: str, shape: tuple[int, ...], layout: str | None) -> Iterator[Axes]:
    heads, length = ("Hkv", "S") if role in OF_KEYS else ("H", "L")
    width = "d_v" if role in ("v", "context") else "d_k"
    if len(shape) == 4:
        if layout != "blhd":
            yield Axes("bhld", dict(zip(("B", heads, length, width), shape, strict=True)))
        if layout != "bhld":
            yield Axes("blhd", dict(zip(("B", length, heads, width), shape, strict=True)))
    if len(shape) == 3:
        for batch, count in _factors(shape[0]):
            sizes = {"B": batch, heads: count, "heads": count, length: shape[1], width: shape[2]}
            yield Axes("b·h", sizes)
    if len(shape) in (2, 3):
        batch = 1 if len(shape) == 2 else shape[0]
        for count, each in _factors(shape[-1]):
            sizes = {"B": batch, heads: count, "heads": count, length: shape[-2], width: each}
            yield Axes("(h·d)", sizes)


def _factors(product: int) -> Iterator[tuple[int, int]]:
    """Every (a, b) with a · b = product; none of 0."""
    for a in range(1, min(product, 4096) + 1):
        if product % a == 0:
            yield a, product // a
