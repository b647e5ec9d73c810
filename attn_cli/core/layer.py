"""The layer around the core: token vectors to q, k and v, and the heads back to an output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.blank import Blank, blank
from attn_cli.errors import MisfitError

Array = NDArray[Any]

Show = Callable[[str, Array], Array]  # a stage's name and array → the array, rounded if need be

_COUNTS_SHOWN = 8


@dataclass(frozen=True, slots=True, eq=False)
class Projections:
    """The matrices of an attention layer, (in, out): q = x · w_q + b_q; W is stored transposed in
    PyTorch's Linear.

    w_q (d_model, H·d_k), w_k (d_context, Hkv·d_k), w_v (d_context, Hkv·d_v), w_o (H·d_v, d_out) or
    None for no output projection; biases (out,) or None.
    """

    w_q: Array
    w_k: Array
    w_v: Array
    w_o: Array | None = None
    b_q: Array | None = None
    b_k: Array | None = None
    b_v: Array | None = None
    b_o: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Where q, k and v come from: token vectors, with positions added, through projections.

    x (B, L, d_model); `context` (B, S, d_context) is the sequence attended to, None for x itself.
    `encoding` (L, d_model) and `context_encoding` (S, d_context) are added to them. Without
    projections q, k and v are the vectors themselves, split into heads.
    """

    x: Array
    heads: int
    kv_heads: int
    context: Array | None = None
    encoding: Array | None = None
    context_encoding: Array | None = None
    projections: Projections | None = None


def project(
    origin: Origin, batch: int, *, show: Show, cast: Callable[[Array], Array]
) -> tuple[Array, Array, Array]:
    """One batch item's q (H, L, d_k), k (Hkv, S, d_k) and v (Hkv, S, d_v), step by step.

    `cast` brings what the layer holds to the run's precision, `show` each stage.
    """
    x = show("x", origin.x[batch])  # (L, d_model)
    if origin.encoding is not None:
        x = show("x_positions", x + cast(origin.encoding))
    y = x if origin.context is None else cast(origin.context[batch])  # (S, d_context)
    if origin.context is not None and origin.context_encoding is not None:
        y = cast(y + cast(origin.context_encoding))
    weights = origin.projections
    if weights is None:
        q, k, v = x, y, y
    else:
        q = linear(x, weights.w_q, weights.b_q, cast)  # (L, H·d_k)
        k = linear(y, weights.w_k, weights.b_k, cast)  # (S, Hkv·d_k)
        v = linear(y, weights.w_v, weights.b_v, cast)  # (S, Hkv·d_v)
    q = split_heads(q[None], origin.heads)[0]
    k, v = (split_heads(array[None], origin.kv_heads)[0] for array in (k, v))
    return show("q", q), show("k", k), show("v", v)


def make_qkv(origin: Origin) -> tuple[Array, Array, Array]:
    """q (B, H, L, d_k), k (B, Hkv, S, d_k) and v (B, Hkv, S, d_v) of every item, in float64.

    Raises InputError where a width does not split into the heads.
    """

    def wide(array: Array) -> Array:
        return array.astype(np.float64, copy=False)

    if isinstance(origin.x, Blank):  # then one item tells the shapes of all
        alike = project(origin, 0, show=lambda name, array: wide(array), cast=wide)
        first, second, third = (blank((len(origin.x), *array.shape)) for array in alike)
        return first, second, third
    with np.errstate(over="ignore", invalid="ignore"):  # NaN and inf are findings of the run
        items = [
            project(origin, batch, show=lambda name, array: wide(array), cast=wide)
            for batch in range(len(origin.x))
        ]
    q, k, v = (np.stack(arrays) for arrays in zip(*items, strict=True))
    return q, k, v


def linear(x: Array, weight: Array, bias: Array | None, cast: Callable[[Array], Array]) -> Array:
    """x · W + b: (..., in) · (in, out) → (..., out)."""
    out = x @ cast(weight)
    return out if bias is None else out + cast(bias)


def split_heads(x: Array, heads: int, *, what: str = "d_model") -> Array:
    """The width of x cut into equal heads, head 0 first: (B, L, H·d) → (B, H, L, d), a view.

    `what` names the width in the InputError for one that does not divide.

    >>> import numpy as np
    >>> split_heads(np.arange(8).reshape(1, 2, 4), 2).tolist()
    [[[[0, 1], [4, 5]], [[2, 3], [6, 7]]]]
    """
    batch, length, width = x.shape
    if heads < 1 or width % heads:
        raise MisfitError(
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
