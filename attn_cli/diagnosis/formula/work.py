"""Work: what one run of the formula knows and has made so far; its steps read and write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.masks import BoolArray
from attn_cli.diagnosis.drawing import Parameters
from attn_cli.diagnosis.plan import HEADED, MaskSpec, Plan
from attn_cli.diagnosis.question import Question

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """What all runs on one code share: its plan, the numbers in it, its own source where there is
    one, and the constants written in its file."""

    plan: Plan
    parameters: Parameters
    constants: tuple[float, ...] = ()
    source: str = ""

    @property
    def projected(self) -> bool:
        """Whether q, k and v are made by projections."""
        return self.parameters.projections is not None

    @property
    def out_projected(self) -> bool:
        layer = self.parameters.projections
        return layer is not None and layer.w_o is not None

    @property
    def mask(self) -> MaskSpec | None:
        return self.plan.call.mask

    @property
    def hides(self) -> bool:
        """Whether the code takes a mask that hides keys."""
        return self.mask is not None and self.mask.means != "bias"

    @property
    def own_mask(self) -> bool:
        """Whether the code is meant to hide keys by itself."""
        intent = self.plan.intent
        return intent.causal or intent.window is not None or intent.mask is not None

    @property
    def heads(self) -> int | None:
        """The number of heads, None where the questions choose it."""
        return self.plan.intent.heads

    @property
    def splits(self) -> bool:
        """Whether the code itself splits a width into several heads."""
        headed = all(layout in HEADED for layout in self.plan.call.layouts)
        return (self.heads or 1) > 1 and (self.projected or not headed)

    @property
    def cached(self) -> bool:
        return self.plan.intent.cache_arg is not None


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The precision of a run, and the order of its sums: as NumPy has it, or drawn from `rng`."""

    dtype: str = "float64"
    rng: np.random.Generator | None = None

    def cast(self, array: Any) -> Array:
        return np.asarray(array).astype(self.dtype)

    def matmul(self, a: Array, b: Array) -> Array:
        """a · b over the last axis of a and the last but one of b; ValueError where they differ."""
        if self.rng is not None and a.shape[-1] == b.shape[-2]:
            order = self.rng.permutation(a.shape[-1])
            a, b = a[..., order], b[..., order, :]
        product: Array = np.matmul(a, b)
        return product

    def total(self, array: Array, axis: int = -1) -> Array:
        """The sum over one axis, which is kept with size 1."""
        if self.rng is not None:
            array = np.take(array, self.rng.permutation(array.shape[axis]), axis)
        total: Array = array.sum(axis, keepdims=True)
        return total

    def nudged(self, array: Array, dtype: str) -> Array:
        """`array` rounded to a narrower precision; in a run of drawn order, a neighbour of it."""
        narrow = array.astype(dtype)
        if self.rng is not None:
            spread = np.spacing(np.abs(narrow)).astype(np.float64)
            spread = np.where(np.isfinite(spread), spread, 0)
            nudge = self.rng.uniform(-0.6, 0.6, array.shape) * spread
            narrow = (array.astype(np.float64) + nudge).astype(dtype)
        return narrow.astype(self.dtype)


Step = Callable[["Work"], None]
Steps = Mapping[str, Step]


@dataclass(slots=True, eq=False)
class Work:
    """One run: the question, how it is computed, and each stage once its step has made it.

    `x_q`, `x_k`, `x_v` (B, n, d) are what is projected; with an axis of heads in the layout there
    are `q`, `k`, `v` (B, heads, n, d) at once. `own` (1, 1, L, S) and `passed` (B | 1, H | 1,
    L | 1, S) are the code's own mask and the one that it is given, True = may attend, None where
    there is none. `returned` are the weights it gives back, where a map of (B, H, L, S) exists.
    `loose` (B, H, L) marks rows that see nothing: what they hold is not the formula's to say.
    """

    question: Question
    setting: Setting
    arithmetic: Arithmetic
    matrices: dict[str, Array | None] = field(default_factory=dict)
    x_q: Any = None
    x_k: Any = None
    x_v: Any = None
    flat_q: Any = None
    flat_k: Any = None
    flat_v: Any = None
    q: Any = None
    k: Any = None
    v: Any = None
    own: BoolArray | None = None
    passed: BoolArray | None = None
    scores: Any = None
    weights: Any = None
    context: Any = None
    merged: Any = None
    output: Any = None
    returned: Any = None
    loose: Any = None

    @property
    def lengths(self) -> tuple[int, int]:
        """L and S as the question has them."""
        return self.question.shape[2], self.question.shape[3]

    @property
    def heads(self) -> int:
        return self.question.shape[1]

    @property
    def d_k(self) -> int:
        return int(self.question.inputs.q.shape[-1])

    @property
    def scale(self) -> float:
        return self.question.inputs.effective_scale

    @property
    def steps(self) -> tuple[int, ...]:
        """The lengths of the calls that share a cache; one where there is none."""
        return self.question.steps or (self.lengths[0],)

    def as_code(self, array: Array) -> Array:
        """(B, H, n, m) with the axes that the code has for itself: LD and BLD have fewer."""
        layout, headless = self.question.layout, self.heads == 1 and not self.setting.projected
        if headless and layout not in HEADED:
            array = array[:, 0]
        return array[0] if layout in ("LD", "HLD") else array

    def from_code(self, array: Array) -> Array:
        """Undoes `as_code`; ValueError where the axes are others."""
        if self.question.layout in ("LD", "HLD"):
            array = array[None]
        if array.ndim == 3:
            array = array[:, None]
        if array.ndim != 4:
            raise ValueError("axes")
        return array
