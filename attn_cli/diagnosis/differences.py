"""Differences: the gradients of somebody's code beside central differences of its own output."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.results_grads import InputGrads, Reason, Spot, Verdict
from attn_cli.diagnosis.arguments import to_layout
from attn_cli.diagnosis.gradients import Gradients
from attn_cli.diagnosis.host.session import LIMIT
from attn_cli.diagnosis.meaning import ask, reference
from attn_cli.diagnosis.question import Question
from attn_cli.diagnosis.subject import Adapted

Array = NDArray[np.float64]

MOST = 16  # coordinates of one input that are moved: each is four calls
# Of an input's largest derivative: beyond it nothing is decided. Softmax in float32, which much
# right code has, leaves up to some thousandths.
PRECISE = 1e-2
VANISHING = 1e-6  # of Σ |cotangent · output|: a derivative below it is 0 for the purpose
SIGMAS = 16.0  # of the noise that a difference may be off by
ROUNDINGS = 64 * float(np.finfo(np.float64).eps)  # of autograd's own sums
NARROWEST, WIDEST = -17, -6  # powers of 2: the steps that are tried
LINE = 9  # values along a line by which the noise is measured
VERDICTS: dict[Reason, Verdict] = {"": "right", "zero": "right", "imprecise": "undecided"}
AXES = {"q": "d_k", "k": "d_k", "v": "d_v", "x": "d_model", "context": "d_context"}


class NoAnswer(Exception):
    """The code answered the question, and does not answer it when a number is moved a little."""


@dataclass(frozen=True, slots=True, eq=False)
class Differences:
    """One question on code whose gradients were `found`; `seed` chooses what is moved."""

    code: Adapted
    question: Question
    found: Gradients
    seed: int = 0

    @property
    def size(self) -> float:
        """Σ |cotangent · right output|, what the loss is made of."""
        assert self.found.cotangent is not None
        right = reference(self.question)[self.question.stage]
        return float(np.abs(right * self.found.cotangent).sum())

    def inputs(self) -> Iterator[InputGrads]:
        """Every input that the question gives, then every tensor of the code that attn drew.

        Raises NoAnswer where the code fails on the way. Other learned tensors have no differences:
        attn does not know how they lie in the formula.
        """
        for name, gradient in self.found.given.items():
            if name in self.question.given:
                array = self.question.given[name].astype(np.float64)
                yield self._input(_Moved(name, array, _axes(name, array)), gradient)
        known = self.code.numbers.values
        try:
            for name, gradient in self.found.learned.items():
                if name in known:
                    array = np.asarray(known[name], np.float64)
                    axes = tuple(f"axis {place}" for place in range(array.ndim))
                    yield self._input(_Moved(name, array, axes, learned=True), gradient)
        finally:
            self._set(known)

    def _input(self, moved: _Moved, gradient: Any) -> InputGrads:
        rng = np.random.default_rng([self.seed, len(moved.name), moved.array.size])
        step, noise = self._step(moved, rng)
        total = moved.array.size
        chosen = sorted(rng.choice(total, min(MOST, total), replace=False).tolist())
        flat = np.zeros(total) if gradient is None else self._flat(moved, gradient)
        if len(chosen) < total and np.isfinite(flat).all():
            chosen = sorted({*chosen, *self._culprit(moved, flat, step, noise, rng)})
        units = [_unit(total, index) for index in chosen]
        numeric, allowed = self._along(moved, units, step, noise)
        missing = gradient is None
        reason = self._reason(flat[chosen], numeric, allowed, missing=missing)
        return _judged(moved, chosen, flat[chosen], numeric, allowed, step, reason)

    def _reason(self, analytic: Array, numeric: Array, allowed: Array, *, missing: bool) -> Reason:
        if not np.isfinite(analytic).all():
            return "nan"
        if not (np.abs(analytic - numeric) <= allowed).all():
            return "missing" if missing else "differs"
        if allowed.max() > max(PRECISE * np.abs(numeric).max(), VANISHING * self.size):
            return "imprecise"
        return "" if analytic.any() else "zero"

    def _along(
        self, moved: _Moved, directions: Sequence[Array], step: float, noise: float
    ) -> tuple[Array, Array]:
        """The derivative along each direction, and how far it may be off."""
        narrow = np.array([self._slope(moved, one, step) for one in directions])
        wide = np.array([self._slope(moved, one, 2 * step) for one in directions])
        allowed = np.abs(wide - narrow) + SIGMAS * noise / step + ROUNDINGS * np.abs(narrow)
        return narrow, allowed

    def _culprit(
        self, moved: _Moved, flat: Array, step: float, noise: float, rng: np.random.Generator
    ) -> list[int]:
        """A coordinate whose derivative is wrong, found by halves of a drawn direction through
        all; none where the derivative along that is right."""
        signs = rng.choice([-1.0, 1.0], moved.array.size)

        def wrong(suspects: NDArray[np.int_]) -> bool:
            direction = np.zeros(moved.array.size)
            direction[suspects] = signs[suspects]
            numeric, allowed = self._along(moved, [direction], step, noise)
            return bool(abs(float(flat @ direction) - numeric[0]) > allowed[0])

        suspects = np.arange(moved.array.size)
        if not wrong(suspects):
            return []
        while len(suspects) > 1:
            first, second = np.array_split(suspects, 2)
            suspects = first if wrong(first) else second
        return [int(suspects[0])]

    def _flat(self, moved: _Moved, gradient: Any) -> Array:
        """The gradient in the order of the numbers that are moved, not in the code's layout."""
        if moved.learned or gradient.size != moved.array.size:
            return np.asarray(gradient, np.float64).ravel()
        places = np.arange(moved.array.size, dtype=np.float64).reshape(moved.array.shape)
        order = np.asarray(to_layout(places, self.question.layout)).ravel().astype(int)
        flat = np.empty(moved.array.size)
        flat[order] = np.asarray(gradient, np.float64).ravel()
        return flat

    def _step(self, moved: _Moved, rng: np.random.Generator) -> tuple[float, float]:
        """The step, and the noise of the objective: what a cubic through values along a line
        leaves. Code that computes in float32 somewhere has stairs, and needs a wider step."""
        direction = rng.choice([-1.0, 1.0], moved.array.shape)
        offsets = np.linspace(-1, 1, LINE)
        width = 2.0**NARROWEST
        values = np.array([self._value(moved, direction * width * at) for at in offsets])
        left = values - np.polyval(np.polyfit(offsets, values, 3), offsets)
        size = float(np.abs(values).max(initial=1e-30))
        noise = max(float(np.abs(left).max()), size * float(np.finfo(np.float64).eps))
        power = round(math.log2(noise / size) / 3)  # h² and noise / h are alike at h³ = noise
        return 2.0 ** min(max(power, NARROWEST), WIDEST), noise

    def _slope(self, moved: _Moved, direction: Array, step: float) -> float:
        shift = (direction * step).reshape(moved.array.shape)
        return (self._value(moved, shift) - self._value(moved, -shift)) / (2 * step)

    def _value(self, moved: _Moved, shift: Array) -> float:
        """Σ cotangent · output where the input is moved by `shift`."""
        asked = self.question
        if moved.learned:
            self._set({**self.code.numbers.values, moved.name: moved.array + shift})
        else:
            asked = self._question({**asked.given, moved.name: moved.array + shift})
        output = self.code.attend(asked, dtype="float64").output
        if output is None:
            raise NoAnswer(moved.name)
        assert self.found.cotangent is not None
        return float((output * self.found.cotangent).sum())

    def _question(self, given: Mapping[str, Any]) -> Question:
        asked = ask(
            self.code.plan,
            self.code.parameters,
            given,
            name="moved",
            layout=self.question.layout,
            keep=self.question.keep,
            bias=self.question.bias,
        )
        return replace(asked, steps=self.question.steps)

    def _set(self, values: Mapping[str, Any]) -> None:
        if values:
            self.code.session.ask({"op": "set", "values": dict(values)}, limit=LIMIT)


@dataclass(frozen=True, slots=True, eq=False)
class _Moved:
    """What is moved: an array of the question, or (`learned`) a tensor of the code."""

    name: str
    array: Array
    axes: tuple[str, ...]
    learned: bool = False


def _unit(size: int, index: int) -> Array:
    """The direction of one coordinate."""
    unit = np.zeros(size)
    unit[index] = 1.0
    return unit


def _axes(name: str, array: Array) -> tuple[str, ...]:
    tokens = "query" if name in ("q", "x") else "key"
    heads = ("head",) if array.ndim == 4 else ()
    return ("batch", *heads, tokens, AXES.get(name, "feature"))


def _judged(
    moved: _Moved,
    chosen: list[int],
    analytic: Array,
    numeric: Array,
    allowed: Array,
    step: float,
    reason: Reason,
) -> InputGrads:
    apart = np.abs(analytic - numeric)
    wrong = ~(apart <= allowed)
    worst = int(np.argmax(np.where(wrong, np.nan_to_num(apart, nan=np.inf), -1.0)))
    if not wrong.any():
        worst = int(apart.argmax())
    largest = float(np.abs(numeric).max(initial=0.0))
    furthest = float(apart.max(initial=0.0))
    index = np.unravel_index(chosen[worst], moved.array.shape)
    at = {axis: int(i) for axis, i in zip(moved.axes, index, strict=True)}
    return InputGrads(
        name=moved.name,
        axes=moved.axes,
        shape=moved.array.shape,
        verdict=VERDICTS.get(reason, "wrong"),
        reason=reason,
        checked=len(chosen),
        total=moved.array.size,
        step=step,
        max_abs=furthest,
        max_rel=furthest / largest if largest else 0.0 if furthest == 0 else math.inf,
        worst=Spot(at, None, float(analytic[worst]), float(numeric[worst]), float(allowed[worst])),
        zeros=0,
        not_zero=0,
    )
