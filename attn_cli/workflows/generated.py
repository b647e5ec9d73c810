"""Generated: seeded standard normal q, k and v, where no file is given."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from attn_cli.core.draws import normal
from attn_cli.core.dump import Dump
from attn_cli.core.memory import available_bytes, size
from attn_cli.core.settings import Choices
from attn_cli.errors import InputError

MADE = "generated"
BYTES_EACH = 6 * 8  # of a number while it is drawn


def parse_shape(text: str) -> tuple[int, int, int, int]:
    """The sizes of --shape: batch, heads, length, d_k.

    >>> parse_shape("2,4,128,64")
    (2, 4, 128, 64)
    """
    found = re.fullmatch(r"\s*(\d{1,9})\s*,\s*(\d{1,9})\s*,\s*(\d{1,9})\s*,\s*(\d{1,9})\s*", text)
    sizes = tuple(int(part) for part in found.groups()) if found else ()
    if len(sizes) != 4 or 0 in sizes:
        raise InputError(
            f"--shape is {text!r}: expected batch,heads,length,d_k",
            hint="such as --shape 2,4,128,64",
        )
    return sizes


def generated(
    shape: tuple[int, int, int, int],
    *,
    kv_heads: int | None = None,
    d_v: int | None = None,
    seed: int = 0,
) -> Dump:
    """Independent standard normal q (B, H, L, d_k), k (B, Hkv, L, d_k) and v (B, Hkv, L, d_v).

    The same numbers on every machine (`core/draws.py`). What is not said is as in `shape`. Raises
    InputError where they do not fit in memory.
    """
    batch, heads, length, d_k = shape
    kv = (batch, kv_heads or heads, length)
    shapes = {"q": shape, "k": (*kv, d_k), "v": (*kv, d_v or d_k)}
    need, free = sum(map(math.prod, shapes.values())) * BYTES_EACH, available_bytes()
    if free is not None and need > free:
        raise InputError(
            f"q, k and v of --shape {','.join(map(str, shape))} need about {size(need)} of memory, "
            f"and {size(free)} are free",
            hint="give a smaller --shape",
        )
    arrays = {name: normal(seed, i, sizes) for i, (name, sizes) in enumerate(shapes.items())}
    return Dump(
        source=f"standard normal numbers, seed {seed}",
        format=MADE,
        arrays=arrays,
        dtypes=dict.fromkeys(arrays, "float64"),
        sha256="",
    )


def from_shape(text: str, choices: Choices, seed: int) -> tuple[Dump, Choices]:
    """The dump of --shape, and the choices that are left: it has its sizes and its layout.

    Raises InputError for --layout, which is of a file.
    """
    if choices.layout is not None:
        raise InputError("--layout is of a file: --shape is batch,heads,length,d_k")
    dump = generated(parse_shape(text), kv_heads=choices.kv_heads, d_v=choices.d_v, seed=seed)
    return dump, replace(choices, kv_heads=None, d_v=None, seed=None, layout="bhld")
