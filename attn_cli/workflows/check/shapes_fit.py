"""What does not fit in the sizes of a layer, and what fits but is unwise: each with what to change.

What PyTorch's fused kernels take was read in its sources (sdp_utils.cpp, and the lowering of
FlexAttention in 2.13): flash, in 16 bits alone, wants q, k and v of one width of at most 256 and
pads it to a multiple of 8, the memory-efficient kernel wants multiples of 8 in 16 bits and of 4 in
float32, FlexAttention at least 16 features. None of them computes in float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from attn_cli.core.cost import ITEMSIZE
from attn_cli.core.geometry import Geometry
from attn_cli.core.problems import Problem

THIN = 16  # features of a head; FlexAttention takes no fewer
WIDEST = 256  # features of a head that flash kernels take
FLASH = ("float16", "bfloat16")  # what flash kernels compute in
MULTIPLE = {"float16": 8, "bfloat16": 8, "float32": 4}
LISTED = 12  # head counts that a message names


def widths(layer: Geometry, dtype: str, path: str | None = None) -> Iterator[Problem]:
    """Warnings on the widths of a layer's heads, which compute all the same."""
    d_k, d_v = layer.d_k, layer.d_v
    if d_k < THIN:
        yield _warning(
            "thin-heads",
            f"a head has {_features(d_k)}, fewer than {THIN}: FlexAttention refuses it, and little "
            f"can be told apart in so few; {_wider(layer)}",
            path,
        )
    if dtype not in MULTIPLE:
        return
    flash = dtype in FLASH
    if flash and max(d_k, d_v) > WIDEST:
        yield _warning(
            "wide-heads",
            f"a head has {max(d_k, d_v)} features, more than {WIDEST}: PyTorch's flash kernel "
            f"refuses it; more heads, or a narrower d_k and d_v, fit",
            path,
        )
    multiple = MULTIPLE[dtype]
    for name, width in {"d_k": d_k, "d_v": d_v}.items():
        if width % multiple and (name == "d_k" or d_v != d_k):
            wide = -(-width // multiple) * multiple
            padded = f", and flash pads it to {wide}" if flash else ""
            yield _warning(
                "unaligned-width",
                f"{name} {width} is no multiple of {multiple}: PyTorch's memory-efficient kernel "
                f"refuses it in {dtype}{padded}; make it {wide}",
                path,
            )
    if flash and d_k != d_v and layer.latent is None:
        yield _warning(
            "unequal-widths",
            f"d_k {d_k} and d_v {d_v} differ: PyTorch's flash kernel refuses them, its "
            "memory-efficient one does not",
            path,
        )


def dtype_problem(dtype: str) -> Problem | None:
    """A dtype whose bytes are not known."""
    if dtype in ITEMSIZE:
        return None
    known = ", ".join(ITEMSIZE)
    message = f"the dtype {dtype} is not one that attention computes in: give one of {known}"
    return Problem("unknown-dtype", message, field="--dtype")


def divisors(count: int) -> tuple[int, ...]:
    """Every whole number that divides `count`, smallest first.

    >>> divisors(12)
    (1, 2, 3, 4, 6, 12)
    """
    low = [each for each in range(1, math.isqrt(count) + 1) if count % each == 0]
    high = [count // each for each in reversed(low) if each * each != count]
    return (*low, *high)


def near(counts: tuple[int, ...], wanted: int) -> str:
    """The counts in words, the nearest to `wanted` of many.

    >>> near((1, 2, 5, 10), 3)
    '1, 2, 5 or 10'
    """
    shown = sorted(sorted(counts, key=lambda count: abs(count - wanted))[:LISTED])
    *first, last = map(str, shown)
    return f"{', '.join(first)} or {last}" if first else last


def _wider(layer: Geometry) -> str:
    """What makes the heads wide enough: fewer of them, where that is possible."""
    whole = layer.heads * layer.d_k
    fitting = [count for count in divisors(whole) if whole // count >= THIN]
    if not fitting:
        return "a wider d_k holds more"
    return f"fewer heads make them wider: {fitting[-1]} of {whole // fitting[-1]}"


def _features(count: int) -> str:
    return f"{count} feature" + ("" if count == 1 else "s")


def _warning(code: str, message: str, path: str | None) -> Problem:
    return Problem(code, message, severity="warning", layer=path, stage="scores")
