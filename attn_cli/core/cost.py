"""Cost: the bytes and floating-point operations of every stage, and how they grow with length.

One convention throughout: a product of an m × k by a k × n matrix counts 2·m·n·k operations (a
multiplication and an addition each), and every other operation on a number counts 1, exp and tanh
too. So a bias, a scaling, a mask are 1 a number; the softcap 3 (divide, tanh, multiply); a turn by
RoPE 3 (2 multiplications and an addition or subtraction); softmax 5 (maximum, subtract, exp, sum,
divide); a gate 4 (exp, add, divide, multiply). A stage's bytes are those of its array, kept by
itself: a view costs what a copy would.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from attn_cli.core.geometry import Geometry
from attn_cli.core.trace import SCORE_STAGES, StageShape

ITEMSIZE: Mapping[str, int] = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
}
EACH: Mapping[str, int] = {  # operations on a number beside a product
    "x_positions": 1,
    "q_rotated": 3,
    "k_rotated": 3,
    "scaled": 1,
    "softcapped": 3,
    "biased": 1,
    "masked": 1,
    "weights": 5,
    "gated": 4,
}
LONGEST = 1 << 40  # of a sequence, when it is asked from which length on something holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What making one stage takes.

    Every number is a sum of `inner` products (0: none), or of as many as there are keys
    (`over_keys`), and takes `each` more operations. Only `share` of the numbers are made in this
    step: the others are another stage's. Only `new` of the keys are made here, None for all: the
    others come out of a cache, and a query comes with each that is new.
    """

    step: StageShape
    inner: int = 0
    over_keys: bool = False
    each: int = 0
    share: Fraction = Fraction(1)
    new: int | None = None

    @property
    def numbers(self) -> int:
        return math.prod(self.step.shape)

    @property
    def flops(self) -> int:
        """Operations where every query attends to every key."""
        made = self.numbers * self.share
        if self.new is not None:
            made = made * self.new / dict(zip(self.step.axes, self.step.shape, strict=True))["key"]
        return int(made) * (2 * self.inner + self.each)

    def flops_of(self, pairs: int) -> int:
        """Operations where only so many pairs of query and key, of all heads, are computed."""
        if self.step.stage in SCORE_STAGES:
            return pairs * (2 * self.inner + self.each)
        if self.over_keys:
            return pairs * 2 * self.step.shape[-1]
        return self.flops

    def bytes_of(self, pairs: int, itemsize: int) -> int:
        """Bytes where the scores of only so many pairs are kept."""
        held = pairs if self.step.stage in SCORE_STAGES else self.numbers
        return held * itemsize

    def at(self, sizes: Mapping[str, int]) -> Work:
        """The same stage with axes of other sizes, by name: query, key."""
        axes = zip(self.step.axes, self.step.shape, strict=True)
        shape = tuple(sizes.get(axis, size) for axis, size in axes)
        inner = sizes.get("key", self.inner) if self.over_keys else self.inner
        new = None if self.new is None else sizes.get("query", self.new)
        return replace(self, step=replace(self.step, shape=shape), inner=inner, new=new)


@dataclass(frozen=True, slots=True)
class Inner:
    """The lengths of the sums that make q, k, v and the output: 0 where there is no projection."""

    q: int = 0
    k: int = 0
    v: int = 0
    output: int = 0


def works(steps: Iterable[StageShape], inner: Inner, biases: frozenset[str]) -> tuple[Work, ...]:
    """The work of every step of a shape trace, all keys made here."""
    taken = tuple(steps)
    shapes = {step.stage: step.shape for step in taken}
    depth = {
        "q": inner.q,
        "k": inner.k,
        "v": inner.v,
        "output": inner.output,
        "scores": shapes["q"][-1],
        "context": shapes["scores"][-1],
    }
    letters = {"q": "q", "k": "k", "v": "v", "output": "o"}
    return tuple(
        Work(
            step=step,
            inner=depth.get(step.stage, 0),
            over_keys=step.stage == "context",
            each=EACH.get(step.stage, 0) + (letters.get(step.stage) in biases),
        )
        for step in taken
    )


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes and operations, dense and where hidden pairs are left away (None: not known)."""

    bytes: int
    flops: int
    masked_bytes: int | None
    masked_flops: int | None

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.bytes + other.bytes,
            self.flops + other.flops,
            _sum(self.masked_bytes, other.masked_bytes),
            _sum(self.masked_flops, other.masked_flops),
        )


def cost_of(work: Work, itemsize: int, pairs: int | None) -> Cost:
    """What one stage costs; `pairs` are the visible ones of all items and heads, None: unknown."""
    return Cost(
        work.numbers * itemsize,
        work.flops,
        None if pairs is None else work.bytes_of(pairs, itemsize),
        None if pairs is None else work.flops_of(pairs),
    )


def total(costs: Sequence[Cost]) -> Cost:
    """The sum of some costs."""
    start = Cost(0, 0, 0, 0)
    return sum(costs, start)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


@dataclass(frozen=True, slots=True)
class Wall:
    """The memory wall: the stages that hold the most bytes, each as many.

    `takes_over` is the length from which on it is the scores' stages, whatever it is now: of both
    sequences where `varies` is "length", of the keys alone where it is "keys". None: never.
    """

    stages: tuple[str, ...]
    bytes: int
    varies: str
    takes_over: int | None


def wall(done: Sequence[Work], itemsize: int) -> Wall:
    """The memory wall of one layer."""
    queries, keys = next(work.step.shape[2:] for work in done if work.step.stage == "scores")
    largest = max(work.numbers for work in done)
    same = queries == keys

    def scores_lead(length: int) -> bool:
        sizes = {"query": length, "key": length} if same else {"key": length}
        held = {work.step.stage: work.at(sizes).numbers for work in done}
        rest = max((size for stage, size in held.items() if stage not in SCORE_STAGES), default=0)
        return held["scores"] >= rest

    return Wall(
        stages=tuple(work.step.stage for work in done if work.numbers == largest),
        bytes=largest * itemsize,
        varies="length" if same else "keys",
        takes_over=first_where(scores_lead, LONGEST),
    )


def first_where(holds: Callable[[int], bool], most: int) -> int | None:
    """The first of 1 to `most` where it holds, of something that then holds from there on.

    >>> first_where(lambda n: n * n >= 50, 100), first_where(lambda n: False, 100)
    (8, None)
    """
    if not holds(most):
        return None
    least, fits = 1, most
    while least < fits:
        middle = (least + fits) // 2
        if holds(middle):
            fits = middle
        else:
            least = middle + 1
    return least


def parameters(layer: Geometry) -> int:
    """How many numbers the projections of a layer hold, biases included."""
    if not layer.projected or layer.d_model is None:
        return 0
    into, attended = layer.d_model, layer.d_context or layer.d_model
    q = layer.heads * layer.d_k * (1 + layer.gated)
    k, v = layer.kv_heads * layer.d_k, layer.kv_heads * layer.d_v
    merged, out = layer.heads * layer.d_v, layer.d_out or 0
    biases = {"q": q, "k": k, "v": v, "o": out}
    count = sum(size for name, size in biases.items() if name in layer.biases) + merged * out
    if layer.latent is None:
        return count + into * q + attended * (k + v)
    latent = layer.latent
    down_q = into * q if latent.q_rank is None else latent.q_rank * (into + q)
    up_kv = latent.kv_rank * layer.heads * (latent.d_nope + layer.d_v)
    return count + down_q + attended * (latent.kv_rank + latent.d_rope) + up_kv


def cached_numbers(layer: Geometry) -> int:
    """How many numbers a cache of keys and values keeps for one token in one layer."""
    if layer.latent is not None:
        return layer.latent.kv_rank + layer.latent.d_rope
    return layer.kv_heads * (layer.d_k + layer.d_v)


def cached_tokens(layer: Geometry, keys: int) -> int:
    """For how many of `keys` tokens it keeps them: no more than a window or a chunk reaches."""
    return min(size for size in (keys, layer.window, layer.chunk) if size is not None)
