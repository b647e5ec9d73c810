"""The layer around the core: the width of a token vector, cut into heads and put together again."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from attn_cli.errors import InputError

Array = NDArray[Any]

_COUNTS_SHOWN = 8


def split_heads(x: Array, heads: int, *, what: str = "d_model") -> Array:
    """The width of x cut into equal heads, head 0 first: (B, L, H·d) → (B, H, L, d), a view.

    `what` names the width in the InputError for one that does not divide.

    >>> import numpy as np
    >>> split_heads(np.arange(8).reshape(1, 2, 4), 2).tolist()
    [[[[0, 1], [4, 5]], [[2, 3], [6, 7]]]]
    """
    batch, length, width = x.shape
    if heads < 1 or width % heads:
        raise InputError(
            f"{what} {width} does not split into {heads} heads of equal width",
            hint=_counts_near(width, heads),
        )
    return x.reshape(batch, length, heads, width // heads).swapaxes(1, 2)


def merge_heads(context: Array) -> Array:
    """The heads side by side, head 0 first: (B, H, L, d) → (B, L, H·d); undoes split_heads."""
    batch, heads, length, width = context.shape
    return context.swapaxes(1, 2).reshape(batch, length, heads * width)


def working_head_counts(d_model: int) -> tuple[int, ...]:
    """Every head count that divides d_model, smallest first.

    >>> working_head_counts(12)
    (1, 2, 3, 4, 6, 12)
    """
    return tuple(heads for heads in range(1, d_model + 1) if d_model % heads == 0)


def _counts_near(width: int, heads: int) -> str:
    counts = working_head_counts(width)
    near = sorted(sorted(counts, key=lambda count: abs(count - heads))[:_COUNTS_SHOWN])
    which = "these head counts work" if len(near) == len(counts) else "the nearest that work"
    return f"{which}: {', '.join(map(str, near))}"
