"""The plain run of what surrounds attention: positions and projections, summed in any order."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.layer import Origin, Projections
from attn_cli.core.positions import Rotation
from attn_cli.core.rounding import accumulator, precision, round_to

Array = NDArray[Any]
Seen = tuple[str, int | None, Array]  # a stage, its head or None where it has none, its values
Given = tuple[Array, Array, Array]  # q (H, L, d_k), k (Hkv, S, d_k), v (Hkv, S, d_v)
Rounded = Callable[[Array], Array]

STEPS = 256  # in which a projection is summed, one feature after the other up to so many


def rounding(dtype: str) -> Rounded:
    """Rounds to `dtype`, and gives the result in the precision in which sums are kept."""
    wide = accumulator(dtype)

    def rounded(array: Array) -> Array:
        return round_to(np.asarray(array, wide), dtype).astype(wide)

    return rounded


@dataclass(frozen=True, slots=True)
class PlainLayer:
    """One way to compute a layer in `dtype`: sums in an order drawn from `rng`.

    Programs differ in what they compute at once: where it is `fused`, the sum of a projection
    starts from its bias, and a rotation is rounded once; else the bias is added to the rounded
    product, and every product of a rotation is rounded. `noisy`: what a step makes is rounded up
    or down at random. Below float32 the orders of a sum round to the same number but for a few, and
    the few may count most: a row whose roundings cancel by chance would otherwise say that nothing
    is lost in it.
    """

    dtype: str
    rng: np.random.Generator
    fused: bool = True
    noisy: bool = False

    def given(self, inputs: AttentionInputs, b: int) -> Generator[Seen, None, Given]:
        """The stages before the scores; returns q and k as they enter the product, and v."""
        rounded = rounding(self.dtype)
        if inputs.origin is not None:
            q, k, v = yield from self._projected(inputs.origin, b)
        else:
            if inputs.x is not None:
                x = rounded(inputs.x[b])
                yield from (("x", None, x), ("x_positions", None, x))
            q, k, v = rounded(inputs.q[b]), rounded(inputs.k[b]), rounded(inputs.v[b])
        yield from _by_head(q=q, k=k, v=v)
        if (rotation := inputs.rotation) is not None:
            q = self.turned(q, np.asarray(inputs.query_positions), rotation)
            k = self.turned(k, np.asarray(inputs.key_positions), rotation)
        yield from _by_head(q_rotated=q, k_rotated=k)
        return q, k, v

    def linear(self, x: Array, weights: Projections | None, name: str) -> Array:
        """x · W + b, the features of x one after the other; x itself without projections."""
        if weights is None:
            return x
        rounded = rounding(self.dtype)
        matrix, bias = rounded(getattr(weights, f"w_{name}")), getattr(weights, f"b_{name}")
        start = np.zeros(1, x.dtype) if bias is None else rounded(bias)
        features = self.rng.permutation(x.shape[1])
        total = start if self.fused else np.zeros_like(start)
        for some in np.array_split(features, min(len(features), STEPS)):
            total = total + np.matmul(x[:, some], matrix[some])
        return self._made(total if self.fused else rounded(total) + start)

    def _projected(self, origin: Origin, b: int) -> Generator[Seen, None, Given]:
        rounded = rounding(self.dtype)
        x = rounded(origin.x[b])  # (L, d_model)
        yield "x", None, x
        if origin.encoding is not None:
            x = rounded(x + rounded(origin.encoding))
        yield "x_positions", None, x
        y = x
        if origin.context is not None:
            y = rounded(origin.context[b])  # (S, d_context)
            if origin.context_encoding is not None:
                y = rounded(y + rounded(origin.context_encoding))
        q, k, v = (
            np.stack(np.split(self.linear(vectors, origin.projections, name), heads, axis=1))
            for name, vectors, heads in (
                ("q", x, origin.heads),
                ("k", y, origin.kv_heads),
                ("v", y, origin.kv_heads),
            )
        )
        return q, k, v

    def turned(self, array: Array, positions: Array, rotation: Rotation) -> Array:
        """q or k (H, n, d) with its feature pairs turned, each frequency by a drawn formula.

        Angles are kept as sums are, as models do; an error of a frequency grows with the position.
        """
        rounded: Rounded = np.asarray if self.fused else rounding(self.dtype)
        wide, half = array.dtype.type, array.shape[-1] // 2
        power, base = np.arange(half, dtype=wide) / wide(half), wide(rotation.base)
        formulas = (
            lambda: base**-power,
            lambda: 1 / base**power,
            lambda: np.exp(-power * np.log(base)),
        )
        angle = positions.astype(wide)[:, None] * formulas[self.rng.integers(3)]()
        cos, sin = rounded(np.cos(angle)), rounded(np.sin(angle))
        interleaved = rotation.pairing == "interleaved"
        first, second = (
            (array[..., ::2], array[..., 1::2])
            if interleaved
            else (array[..., :half], array[..., half:])
        )
        turned = (
            self._made(rounded(first * cos) - rounded(second * sin)),
            self._made(rounded(second * cos) + rounded(first * sin)),
        )
        if interleaved:
            return np.stack(turned, axis=-1).reshape(array.shape)
        return np.concatenate(turned, axis=-1)

    def _made(self, array: Array) -> Array:
        """What a step has made, rounded."""
        rounded = rounding(self.dtype)
        if not self.noisy or self.dtype == accumulator(self.dtype).__name__:
            return rounded(array)
        nudge = self.rng.uniform(-0.5, 0.5, array.shape) * precision(self.dtype).ulp(array)
        return rounded(array + nudge.astype(array.dtype))


def _by_head(**stages: Array) -> Iterator[Seen]:
    for name, array in stages.items():
        for h, values in enumerate(array):
            yield name, h, values
