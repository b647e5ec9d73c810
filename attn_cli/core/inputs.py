"""AttentionInputs: the question, and the one place where its shapes and dtypes are validated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.layer import Origin, Projections
from attn_cli.core.masks import BoolArray, Mask, evaluate
from attn_cli.core.positions import Rotation, ScoreBias
from attn_cli.errors import InputError, MisfitError

Array = NDArray[Any]

# An additive mask entry at or below this is a "finite fill": it was meant to hide its key
# (−1e9, finfo.min), so the key is not counted as visible although the number is added as it stands.
FINITE_FILL = -1e4


@dataclass(frozen=True, slots=True)
class Labels:
    """Tokens of the queries and of the keys: one tuple a batch item."""

    query: tuple[tuple[str, ...], ...]
    key: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class AttentionInputs:
    """Q, K, V and everything that changes what attention computes from them.

    q (B, H, L, d_k), k (B, Hkv, S, d_k), v (B, Hkv, S, d_v): float arrays; query head h reads
    key/value head h // (H / Hkv). `bias` (added to the scaled, capped scores) and `additive` (an
    additive mask) broadcast to (B, H, L, S); `mask` says True = may attend; `sinks` (H,) are extra
    logits in the denominator. `scale` None means 1/√d_k. Query i sits at absolute position
    `q_offset` + i; None says that queries and keys have no common origin. `rotation` turns q and k
    by their positions before the product, `position_bias` is added with `bias`. `x` (B, L, d_model)
    are the token vectors that q came from: with them the output is merged, (B, L, H·d_v). `origin`
    says how q, k and v were made from them; an engine then makes them again by its own code in its
    own precision, and projects the output. `query_lengths` says how many queries of each item are
    no padding, None that all are; the rows behind are computed, and no finding is made of them.

    Raises InputError where shapes do not fit.
    """

    q: Array
    k: Array
    v: Array
    mask: Mask | None = None
    additive: Array | None = None
    bias: Array | None = None
    scale: float | None = None
    softcap: float | None = None
    sinks: Array | None = None
    q_offset: int | None = 0
    labels: Labels | None = None
    x: Array | None = None
    rotation: Rotation | None = None
    position_bias: ScoreBias | None = None
    origin: Origin | None = None
    query_lengths: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        _check_arrays(self)
        _check_widths(self)
        _check_extras(self)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, L, S): the shape of the scores."""
        batch, heads, queries, _ = self.q.shape
        return batch, heads, queries, self.k.shape[2]

    @property
    def effective_scale(self) -> float:
        """The factor on q·kᵀ: `scale`, or 1/√d_k."""
        return 1.0 / math.sqrt(self.q.shape[-1]) if self.scale is None else self.scale

    @property
    def kv_heads(self) -> int:
        return int(self.k.shape[1])

    @property
    def output_projection(self) -> Projections | None:
        """The projections, where they hold one for the output."""
        weights = self.origin.projections if self.origin else None
        return weights if weights is not None and weights.w_o is not None else None

    @property
    def key_positions(self) -> range:
        return range(self.k.shape[2])

    @property
    def query_positions(self) -> range:
        start = self.q_offset or 0
        return range(start, start + self.q.shape[2])

    def visible(self, batch: int | None = None) -> BoolArray | None:
        """(B, H, L, S) or, for one item, (H, L, S): which keys take part; None when all do.

        A key is hidden where `mask` is False or `additive` or `bias` is −inf; NaN hides nothing.
        """
        if self.mask is None and not self.hides_by_adding:
            return None
        seen = self.keep(batch)
        for array in (self.additive, self.bias):
            if array is not None:
                seen = seen & ~_over_scores(np.isneginf(array), self.shape, batch)
        return seen

    def counted(self, batch: int | None = None) -> BoolArray | None:
        """Like `visible`, less the keys that a finite fill (≤ −1e4) was meant to hide."""
        seen = self.visible(batch)
        if self.additive is None:
            return seen
        open_ = ~(self.added(batch) <= FINITE_FILL)
        return open_ if seen is None else seen & open_

    @property
    def masks(self) -> bool:
        """Whether the masking step is taken: there is a mask, or −inf in the bias."""
        return self.mask is not None or self.additive is not None or self.hides_by_adding

    @property
    def hides_by_adding(self) -> bool:
        """Whether the additive mask or the bias holds −inf."""
        added = (self.additive, self.bias)
        return any(array is not None and bool(np.isneginf(array).any()) for array in added)

    def keep(self, batch: int | None = None) -> BoolArray:
        """`mask` evaluated over all positions, True everywhere where there is none."""
        B, H, L, S = self.shape
        if self.mask is None:
            return np.ones((B, H, L, S) if batch is None else (H, L, S), dtype=bool)
        if batch is None:
            return evaluate(
                self.mask, batch=B, heads=H, queries=self.query_positions, keys=range(S)
            )
        return np.broadcast_to(self.mask(*self._grid(batch)), (H, L, S))

    def added(self, batch: int | None = None) -> Array:
        """The additive mask over (B, H, L, S) or, for one item, (H, L, S); zeros where none."""
        return _over_scores(self.additive, self.shape, batch)

    @property
    def has_bias(self) -> bool:
        """Whether anything is added to the scaled scores."""
        return self.bias is not None or self.position_bias is not None

    def biased_by(self, batch: int) -> Array:
        """All that is added to one item's scaled scores, (H, L, S)."""
        total = _over_scores(self.bias, self.shape, batch)
        if self.position_bias is None:
            return total
        return total + self.position_bias(*self._grid(batch))

    def _grid(self, batch: int) -> tuple[Array, Array, Array, Array]:
        """The indices b, h, q and k of one item, to broadcast to (H, L, S)."""
        _, heads, _, keys = self.shape
        q_pos = np.asarray(self.query_positions).reshape(1, -1, 1)
        b, h = np.full((1, 1, 1), batch), np.arange(heads).reshape(-1, 1, 1)
        return b, h, q_pos, np.arange(keys).reshape(1, 1, -1)


def _over_scores(array: Array | None, shape: tuple[int, ...], batch: int | None) -> Array:
    full = np.broadcast_to(np.zeros(()) if array is None else array, shape)
    return full if batch is None else full[batch]


def _check_arrays(inputs: AttentionInputs) -> None:
    for name in ("q", "k", "v"):
        array = getattr(inputs, name)
        if array.ndim != 4:
            raise MisfitError(
                f"{name} has shape {array.shape}: expected (batch, heads, length, width)"
            )
        if 0 in array.shape:
            raise MisfitError(
                f"{name} has shape {array.shape}: an axis of size 0 leaves nothing to attend to",
                hint="give at least one token, one head and one feature",
            )
        if array.dtype.kind != "f":
            raise InputError(
                f"{name} has dtype {array.dtype}: expected real numbers",
                hint="a bool array looks like a mask" if array.dtype.kind == "b" else "",
            )


def _check_widths(inputs: AttentionInputs) -> None:
    q, k, v = inputs.q, inputs.k, inputs.v
    if not q.shape[0] == k.shape[0] == v.shape[0]:
        raise MisfitError(
            f"q, k and v have {q.shape[0]}, {k.shape[0]} and {v.shape[0]} batch items: "
            "they must be equal"
        )
    if k.shape[1] != v.shape[1]:
        raise MisfitError(f"k has {k.shape[1]} heads and v has {v.shape[1]}: they must be equal")
    if q.shape[1] % k.shape[1]:
        raise MisfitError(
            f"q has {q.shape[1]} heads, k has {k.shape[1]}: the query heads must be a multiple "
            "of the key/value heads",
            hint="is the layout (batch, length, heads, width)? then pass --layout blhd",
        )
    if q.shape[3] != k.shape[3]:
        raise MisfitError(
            f"q has width {q.shape[3]} and k has width {k.shape[3]}: q · kᵀ needs equal widths"
        )
    if k.shape[2] != v.shape[2]:
        raise MisfitError(
            f"k has {k.shape[2]} positions and v has {v.shape[2]}: every key needs its value"
        )


def _check_extras(inputs: AttentionInputs) -> None:
    for name, what in (("additive", "the additive mask"), ("bias", "the bias"), ("sinks", "sinks")):
        array = getattr(inputs, name)
        if array is not None and array.dtype.kind != "f":
            raise InputError(
                f"{what} has dtype {array.dtype}: expected real numbers",
                hint="True = may attend is given as `mask`" if array.dtype.kind == "b" else "",
            )
    if inputs.rotation is not None:
        inputs.rotation.check_width(inputs.q.shape[-1])
    if inputs.q_offset is None and (inputs.rotation or inputs.position_bias):
        raise MisfitError(
            f"{inputs.shape[2]} queries and {inputs.shape[3]} keys have no common origin, and "
            "positions need one",
            hint="pass --align lower-right (a KV cache) or --align upper-left",
        )
    for name, what in (("additive", "the additive mask"), ("bias", "the bias")):
        array = getattr(inputs, name)
        if array is not None and not _broadcasts(array.shape, inputs.shape):
            raise MisfitError(
                f"{what} has shape {array.shape}, which does not broadcast to the scores' "
                f"{inputs.shape} (batch, head, query, key)"
            )
    if inputs.sinks is not None and inputs.sinks.shape != (inputs.q.shape[1],):
        raise MisfitError(
            f"sinks has shape {inputs.sinks.shape}: expected one number a head, "
            f"({inputs.q.shape[1]},)"
        )
    if inputs.scale is not None and not math.isfinite(inputs.scale):
        raise InputError(f"the scale is {inputs.scale}: expected a finite number")
    if inputs.softcap is not None and not (inputs.softcap > 0 and math.isfinite(inputs.softcap)):
        raise InputError(f"the softcap is {inputs.softcap:g}: expected a positive number")


def _broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False
