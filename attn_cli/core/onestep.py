"""One step: every stage again from the stage before it, as somebody's computation left that one.

A stage that is right given what it received has no fault of its own, however far it is from the
right answer. So each stage of a side is made anew, in float64, from the *same side's* stage before
it, and how far right code may be from that is measured as the budget of a whole run is: plain runs
of the one step, in the side's precision, with permuted sums. What a step receives is moved by up to
half an ulp in them: a program may show a stage rounded and go on with what it was before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.layer import Origin, merge_heads, split_heads
from attn_cli.core.plain_layer import PlainLayer
from attn_cli.core.positions import Rotation
from attn_cli.core.rounding import accumulator, precision, round_to

Array = NDArray[Any]
Step = Callable[[Array], Array]
Stages = Mapping[str, Array]

HIDDEN = -5e3  # masked scores up to it are hidden, where nobody says which: −10,000 + score is
EXACT = ("q", "k", "v", "x")  # what came in is what a side went on with


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """What turns one stage into the next, of one batch item.

    `given` are the stages that the item starts from, as they came in. A step that is not taken is
    None. `unknown` names the steps of which nobody said how they go: nothing is made by them.
    `visible` (1, H, L, S) tells hidden keys; None where a mask is unknown or hides nothing.
    """

    given: Stages
    scale: float | None = None
    softcap: float | None = None
    bias: Array | None = None
    additive: Array | None = None
    visible: NDArray[np.bool_] | None = None
    sinks: Array | None = None
    rotation: Rotation | None = None
    positions: tuple[range, range] = (range(0), range(0))
    origin: Origin | None = None
    has_x: bool = False
    unknown: frozenset[str] = frozenset()
    factor: float = 1.0  # what the scores of a program hold already
    every: bool = False  # show steps that change nothing, too, and the lse


def rule_of(inputs: AttentionInputs) -> Rule:
    """The rule of a question with one batch item."""
    origin, scale = inputs.origin, inputs.effective_scale
    if inputs.x is None:
        given = {"q": inputs.q, "k": inputs.k, "v": inputs.v}
    elif origin is None:
        given = {"x": inputs.x, "q": inputs.q, "k": inputs.k, "v": inputs.v}
    else:
        given = {"x": inputs.x}
    return Rule(
        given=given,
        scale=None if scale == 1 else scale,
        softcap=inputs.softcap,
        bias=inputs.biased_by(0)[None] if inputs.has_bias else None,
        additive=None if inputs.additive is None else inputs.added(0)[None],
        visible=_first(inputs.visible(0)),
        sinks=inputs.sinks,
        rotation=inputs.rotation,
        positions=(inputs.query_positions, inputs.key_positions),
        origin=origin,
        has_x=inputs.x is not None,
    )


def _first(array: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    return None if array is None else array[None]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How a step is computed: exactly, in float64, or with `rng` as some program in `dtype`."""

    dtype: str = "float64"
    rng: np.random.Generator | None = None
    fused: bool = True

    def rounded(self, array: Array) -> Array:
        return round_to(self.wide(array), self.dtype).astype(self._wide, copy=False)

    def wide(self, array: Array) -> Array:
        return np.asarray(array, self._wide)

    def received(self, name: str, array: Array) -> Array:
        """A stage as the next step receives it: moved within half an ulp where `rng` is there."""
        array = self.wide(array)
        if self.rng is None or name in EXACT:
            return array
        moved = array.copy()
        free = np.isfinite(array) & (array != 0)
        ulp = precision(self.dtype).ulp(array[free])
        moved[free] += (self.rng.uniform(-0.5, 0.5, ulp.shape) * ulp).astype(self._wide)
        return moved

    def product(self, a: Array, b: Array) -> Array:
        """a · b, the sum in an order drawn from `rng`."""
        if self.rng is None:
            return np.asarray(np.matmul(a, b))
        order = self.rng.permutation(a.shape[-1])
        return np.asarray(np.matmul(a[..., order], b[..., order, :]))

    @property
    def layer(self) -> PlainLayer:
        rng = self.rng or np.random.default_rng(0)
        return PlainLayer(self.dtype, rng, fused=self.fused, noisy=self.rng is not None)

    @property
    def _wide(self) -> type[np.float32 | np.float64]:
        return accumulator(self.dtype)


def next_stages(rule: Rule, held: Stages, by: Arithmetic = Arithmetic()) -> dict[str, Array]:
    """Every stage that the stage before it allows to make, each from `held` where that has it.

    Arrays have the axes of a trace with one batch item. Where `held` lacks a stage the one that was
    just made goes on in its place. Hidden keys take no part; an empty row has weights 0.
    """
    made: dict[str, Array] = {name: by.rounded(array) for name, array in rule.given.items()}

    def now(name: str) -> Array | None:
        if name in held:
            return by.received(name, held[name])
        return made.get(name)

    with np.errstate(all="ignore"):
        made |= _before(rule, now, by)
        q, k, v = (entering(name, now) for name in ("q", "k", "v"))
        if q is not None and k is not None:
            product = by.rounded(by.product(q, per_query_head(k, q.shape[1]).mT))
            made["scores"] = product if rule.factor == 1 else by.rounded(product * rule.factor)
        _add_scores(rule, held, made, now, by)
        weights = now("weights")
        if weights is not None and v is not None:
            made["context"] = by.rounded(_weigh(rule, weights, v, by))
        made |= _after(rule, now, by)
    return made


Now = Callable[[str], Array | None]


def entering(name: str, now: Now) -> Array | None:
    """q or k as it enters the product, turned where somebody turns it; v as it is."""
    turned = None if name == "v" else now(f"{name}_rotated")
    return now(name) if turned is None else turned


def _before(rule: Rule, now: Now, by: Arithmetic) -> Iterator[tuple[str, Array]]:
    """x_positions, q, k and v out of the token vectors, and q and k turned."""
    origin, x = rule.origin, now("x")
    if origin is not None and x is not None:
        if origin.encoding is not None:
            yield "x_positions", (with_positions := by.rounded(x + by.rounded(origin.encoding)))
            shown = now("x_positions")
            x = with_positions if shown is None else shown
        yield from _projected(origin, x, by)
    turn = rule.rotation
    for name, at in zip(("q", "k"), rule.positions, strict=True):
        array = now(name)
        if turn is not None and array is not None:
            if by.rng is None:
                yield f"{name}_rotated", turn.rotate(array, np.asarray(at))
            else:
                yield f"{name}_rotated", by.layer.turned(array, np.asarray(at), turn)


def _projected(origin: Origin, x: Array, by: Arithmetic) -> Iterator[tuple[str, Array]]:
    y = x
    if origin.context is not None:
        y = by.rounded(origin.context)
        if origin.context_encoding is not None:
            y = by.rounded(y + by.rounded(origin.context_encoding))
    for name, vectors, heads in (
        ("q", x, origin.heads),
        ("k", y, origin.kv_heads),
        ("v", y, origin.kv_heads),
    ):
        yield name, split_heads(by.layer.linear(vectors[0], origin.projections, name)[None], heads)


def _chain(rule: Rule, by: Arithmetic) -> Iterator[tuple[str, Step]]:
    """The steps from the scores to the masked ones that are taken, or all of them."""
    scale, cap, bias = rule.scale, rule.softcap, rule.bias
    if scale is not None or rule.every:
        yield "scaled", lambda scores: scores * (1.0 if scale is None else scale)
    if cap is not None:
        yield "softcapped", lambda scores: by.rounded(np.tanh(by.rounded(scores / cap))) * cap
    elif rule.every:
        yield "softcapped", lambda scores: scores
    if bias is not None:
        yield "biased", lambda scores: scores + by.rounded(bias)
    elif rule.every:
        yield "biased", lambda scores: scores
    if rule.additive is not None or rule.visible is not None or rule.every:
        yield "masked", lambda scores: _mask(rule, scores, by)


def _mask(rule: Rule, scores: Array, by: Arithmetic) -> Array:
    if rule.additive is not None:
        scores = by.rounded(scores + by.rounded(rule.additive))
    return scores if rule.visible is None else np.where(rule.visible, scores, -np.inf)


def _add_scores(rule: Rule, held: Stages, made: dict[str, Array], now: Now, by: Arithmetic) -> None:
    """scaled to masked, lse and weights, as far as they can be made.

    By an unknown mask keys are hidden as `held` has them, and the others keep their scores.
    """
    scores = now("scores")
    for name, step in _chain(rule, by):
        if scores is not None and name not in rule.unknown:
            made[name] = by.rounded(step(scores))
        elif scores is not None and name == "masked" and name in held:
            shown = by.wide(held[name])
            made[name] = np.where(shown <= HIDDEN, shown, by.rounded(scores))
        scores = now(name)
    if scores is not None:
        weights, lse = _softmax(rule, scores, by)
        made["weights"] = by.rounded(weights)
        if rule.every:
            made["lse"] = by.rounded(lse)


def _softmax(rule: Rule, masked: Array, by: Arithmetic) -> tuple[Array, Array]:
    """exp(s − max) / Σ and ln Σ exp(s), sinks in both.

    Weights are 0 in an empty row, which has lse −inf, sink or not, and at a key whose masked score
    is −inf.

    Hidden is what the masked scores that came in hide, be it what the mask says or not. A row that
    sees keys and has −inf at every one is NaN, by the formula.
    """
    hidden = np.isneginf(masked)
    top = masked.max(-1, keepdims=True)
    sink: Array = np.array(-np.inf)
    if rule.sinks is not None:
        sink = by.rounded(rule.sinks)[:, None, None]
    top = np.maximum(top, sink)
    top = np.where(np.isneginf(top), 0, top)
    e = np.where(hidden, 0, np.exp(masked - top))
    total = _sum(e, by) + np.exp(sink - top)
    weights = np.where(total == 0, 0, e / np.where(total == 0, 1, total))
    lse = (top + np.log(total))[..., 0]
    if "masked" in rule.unknown:
        return weights, lse
    nothing = (total == 0) & hidden.all(-1, keepdims=True)
    seeing = True if rule.visible is None else rule.visible.any(-1, keepdims=True)
    lost = np.ones(hidden.shape, bool) if rule.visible is None else rule.visible
    if rule.visible is not None:
        lse = np.where(rule.visible.any(-1), lse, -np.inf)
    return np.where(nothing & seeing & lost, np.nan, weights), lse


def _sum(e: Array, by: Arithmetic) -> Array:
    if by.rng is None:
        return np.asarray(e.sum(-1, keepdims=True))
    order = by.rng.permutation(e.shape[-1])
    return np.asarray(e[..., order].cumsum(-1)[..., -1:])


def _weigh(rule: Rule, weights: Array, v: Array, by: Arithmetic) -> Array:
    """weights · v; a NaN or inf in a value reaches the rows that see its key, and no other."""
    v = per_query_head(v, weights.shape[1])
    finite = np.isfinite(v)
    context = by.product(weights, np.where(finite, v, 0))
    if finite.all():
        return context
    seen = rule.visible if rule.visible is not None else np.ones(weights.shape, bool)
    for key in np.flatnonzero((~finite).any((0, 1, 3))):
        value = v[:, :, key, None]  # (1, H, 1, d_v)
        share = weights[..., key, None] * np.where(np.isfinite(value), 0, value)
        context = np.where(seen[..., key, None], context + share, context)
    return context


def _after(rule: Rule, now: Now, by: Arithmetic) -> Iterator[tuple[str, Array]]:
    """The heads side by side, and through the output projection."""
    context = now("context")
    if context is None or not (rule.has_x or rule.every):
        return
    merged = merge_heads(context)
    yield "merged", merged
    shown = now("merged")
    weights = rule.origin.projections if rule.origin is not None else None
    if weights is not None and weights.w_o is not None:
        received = merged if shown is None else shown
        yield "output", by.layer.linear(received[0], weights, "o")[None]


def per_query_head(array: Array, heads: int) -> Array:
    return array if array.shape[1] == heads else array.repeat(heads // array.shape[1], 1)
