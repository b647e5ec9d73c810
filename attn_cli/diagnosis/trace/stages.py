"""Forms: the arrays that a line of somebody's code may hold, out of the reference of a question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.budget import measure_budget
from attn_cli.core.code_trace import STAGE_WORDS
from attn_cli.core.inputs import FINITE_FILL
from attn_cli.core.masks import BoolArray
from attn_cli.core.rounding import PRECISIONS, precision
from attn_cli.core.steps import sources
from attn_cli.core.trace import ALL_STAGES
from attn_cli.diagnosis.meaning import reference
from attn_cli.diagnosis.question import Question

Array = NDArray[Any]

MAPS = ("scores", "scaled", "softcapped", "biased", "masked")
JUDGED = ("masked", "weights", "context", "merged", "output")


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """An array that may be found, and how far from it an array may be that is it.

    `stage` is None for a step on the way to one. `rows` marks what counts, `hidden` where any very
    negative number is −∞; both broadcast to `array`, and are None where all and nothing is.
    """

    stage: str | None
    label: str
    array: Array
    axes: tuple[str, ...]
    budget: Array | float
    rows: BoolArray | None = None
    hidden: BoolArray | None = None

    @property
    def folds(self) -> tuple[int, ...]:
        """The axes that may be merged in any order: the items, the heads, and what is stacked."""
        either = [n for n, axis in enumerate(self.axes) if axis in ("batch", "head") or "," in axis]
        return tuple(either)

    def made_alike(self, array: Array) -> Array:
        """`array`, in the form's axes, with hidden places −∞ and rows that do not count as here."""
        if self.hidden is not None:
            array = np.where(self.hidden & (array <= FINITE_FILL), -np.inf, array)
        return array if self.rows is None else np.where(self.rows, array, self.array)


class Forms:
    """The forms of one question, within the rounding of a precision."""

    def __init__(self, question: Question) -> None:
        self.question = question
        trace = reference(question)
        source = sources(question.inputs, {step.stage for step in trace.shapes})
        axes = {step.stage: step.axes for step in trace.shapes}
        self.stages: dict[str, Array] = {}
        self.axes: dict[str, tuple[str, ...]] = {}
        for name in ALL_STAGES:
            if source.get(name) == name:
                self.stages[name] = trace[name]
                self.axes[name] = axes[name]
        self._found: dict[str, tuple[Form, ...]] = {}

    def within(self, dtype: str) -> tuple[Form, ...]:
        """The forms, each with the budget of code that computes in `dtype`."""
        dtype = dtype if dtype in PRECISIONS else "float64"
        if dtype not in self._found:
            budgets = measure_budget(self.question.inputs, self.stages, dtype=dtype)
            ulp = precision(dtype).eps
            self._found[dtype] = (
                *self._own(budgets),
                *self._derived(budgets, ulp),
                *self._together(budgets),
            )
        return self._found[dtype]

    def of(self, stage: str, dtype: str) -> tuple[Form, ...]:
        """The forms of one stage."""
        return tuple(form for form in self.within(dtype) if form.stage == stage)

    def _own(self, budgets: Mapping[str, Array]) -> Iterator[Form]:
        """Every stage; those with query heads also with the heads of a group on an axis of their
        own, and k and v also repeated for every query head."""
        _, heads, _, _ = self.question.shape
        kv_heads = self.question.inputs.kv_heads
        for name, array in self.stages.items():
            rows = self._rows(name)
            hidden = self.hidden if name == "masked" else None
            form = Form(
                name, STAGE_WORDS[name], array, self.axes[name], budgets[name], rows, hidden
            )
            yield form
            if heads == kv_heads or "head" not in form.axes:
                continue
            if array.shape[1] == heads:
                yield _grouped(form, kv_heads)
            else:
                repeated = array.repeat(heads // kv_heads, 1)
                budget = np.asarray(budgets[name]).repeat(heads // kv_heads, 1)
                each = Form(name, f"{form.label} for every head", repeated, form.axes, budget)
                yield from (each, _grouped(each, kv_heads))

    def _derived(self, budgets: Mapping[str, Array], ulp: float) -> Iterator[Form]:
        """What people compute on the way: q already scaled, a product without its bias, and the
        steps of a softmax."""
        yield from self._scaled_early(budgets, ulp)
        yield from self._without_bias(budgets)
        maps = [name for name in MAPS if name in self.stages]
        for name in reversed(maps):
            yield from self._softmax_steps(name, budgets, ulp, last=name == maps[-1])

    def _scaled_early(self, budgets: Mapping[str, Array], ulp: float) -> Iterator[Form]:
        scale = self.question.inputs.effective_scale
        if scale <= 0:
            return
        for name in ("q", "q_rotated", "k", "k_rotated"):
            for factor, word in ((scale, "scale"), (np.sqrt(scale), "√scale")):
                if name in self.stages:
                    array = self.stages[name] * factor
                    budget = factor * np.asarray(budgets[name]) + 4 * ulp * np.abs(array)
                    yield Form(None, f"{name} × {word}", array, self.axes[name], budget)

    def _without_bias(self, budgets: Mapping[str, Array]) -> Iterator[Form]:
        origin = self.question.inputs.origin
        layer = None if origin is None else origin.projections
        for name, field in (("q", "b_q"), ("k", "b_k"), ("v", "b_v"), ("output", "b_o")):
            bias = None if layer is None else getattr(layer, field)
            if bias is None or name not in self.stages:
                continue
            array = self.stages[name]
            wide = bias if name == "output" else bias.reshape(1, array.shape[1], 1, -1)
            label = f"{name} before its bias"
            budget = 2 * np.asarray(budgets[name])
            yield Form(None, label, array - wide, self.axes[name], budget, self._rows(name))

    def _softmax_steps(
        self, name: str, budgets: Mapping[str, Array], ulp: float, *, last: bool
    ) -> Iterator[Form]:
        """The steps of a softmax over keys of a stage; of the last stage before the weights its
        result is the stage that follows."""
        scores, axes, words = self.stages[name], self.axes[name], STAGE_WORDS[name]
        rows, hidden = (self._rows("weights"), self.hidden) if last else (None, None)
        one = None if rows is None else rows[..., 0]
        off = np.broadcast_to(np.asarray(budgets[name]), (*scores.shape[:-1], 1))
        with np.errstate(invalid="ignore"):
            largest = scores.max(-1, keepdims=True)
            shifted = scores - largest
        exp = np.where(np.isnan(shifted), 0.0, np.exp(shifted))
        sums, off_exp = exp.sum(-1, keepdims=True), 4 * off + 8 * ulp
        of = "" if last else f" of the {words}"
        yield Form(None, f"row maximum{of}", largest[..., 0], axes[:-1], off[..., 0], one)
        yield Form(None, f"{words} less their maximum", shifted, axes, 2 * off, rows, hidden)
        yield Form(None, f"exp of the {words}", exp, axes, off_exp, rows)
        off_sums = off_exp[..., 0] * scores.shape[-1]
        yield Form(None, f"row sums{of}", sums[..., 0], axes[:-1], off_sums, one)
        if not last:
            with np.errstate(invalid="ignore"):
                weights = exp / sums
            yield Form(None, f"softmax of the {words}", weights, axes, off_exp)

    def cut(self, dtype: str) -> Iterator[Form]:
        """The maps without their last or first key or query: what a loop one too short gives."""
        for form in self.within(dtype):
            if form.stage not in (*MAPS, "weights") or form.array.ndim != 4:
                continue
            for axis, name in ((3, "key"), (2, "query")):
                for side, kept in (("last", slice(-1)), ("first", slice(1, None))):
                    at = (slice(None),) * axis + (kept,)
                    hidden = None if form.hidden is None else form.hidden[at]
                    label = f"{form.label} without the {side} {name}"
                    yield Form(
                        form.stage, label, form.array[at], form.axes, form.budget, None, hidden
                    )

    def _together(self, budgets: Mapping[str, Array]) -> Iterator[Form]:
        """q, k and v as one array: stacked where they are alike, or side by side in the width."""
        for names in (("q", "k", "v"), ("k", "v")):
            if not all(name in self.stages for name in names) or self.question.inputs.x is None:
                continue
            arrays = [self.stages[name] for name in names]
            off = max(float(np.max(budgets[name])) for name in names)
            label = ", ".join(names)
            if len({array.shape for array in arrays}) == 1:
                axes = (label, "batch", "head", "query", "d_k")
                yield Form(label, label, np.stack(arrays), axes, off)
            elif len({array.shape[2] for array in arrays}) == 1:
                flat = [a.swapaxes(1, 2).reshape(len(a), a.shape[2], -1) for a in arrays]
                side = np.concatenate(flat, -1)
                yield Form(label, label, side, ("batch", "query", f"{label} side by side"), off)

    @cached_property
    def hidden(self) -> BoolArray | None:
        """(B, H, L, S): what no query may see; None where all is seen."""
        visible = self.question.inputs.visible()
        return None if visible is None else ~visible

    def _rows(self, stage: str) -> BoolArray | None:
        """Which rows of a stage count, to broadcast over it."""
        judged = self.question.judged
        if stage not in JUDGED or judged.all():
            return None
        if stage in ("merged", "output"):
            every_head: BoolArray = np.asarray(judged.all(1))
            return every_head[..., None]
        return judged[..., None]


def _grouped(form: Form, kv_heads: int) -> Form:
    """The form with (key/value head, head of the group) for its heads."""
    B, H, *rest = form.array.shape

    def split(array: Any) -> Any:
        if array is None or not np.ndim(array) or array.shape[1] == 1:
            return array if array is None or not np.ndim(array) else array[:, None]
        return array.reshape(len(array), kv_heads, H // kv_heads, *array.shape[2:])

    return Form(
        form.stage,
        form.label,
        form.array.reshape(B, kv_heads, H // kv_heads, *rest),
        ("batch", "kv head", "head of group", *form.axes[2:]),
        split(form.budget),
        split(form.rows),
        split(form.hidden),
    )
