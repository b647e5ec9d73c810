"""Kinds of operations: which stage of the formula one should give, by its name and its size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.diagnosis.trace.labels import Match, rearranged
from attn_cli.diagnosis.trace.stages import MAPS, Forms

Array = NDArray[Any]

CHAIN = (*MAPS, "weights", "context", "merged", "output")

_MOST_RUNS = 24  # runs of an expression that are looked at one by one


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


PRODUCTS = _names("@ matmul bmm einsum dot baddbmm mm tensordot inner contract vecdot matvec")
LAYERS = _names("Linear linear Conv1D Conv2d Conv1d conv2d conv1d addmm") | PRODUCTS
_SCALING = _names("* / *= /= mul div mul_ div_ multiply divide true_divide")
ADDING = _names("+ += add add_ - -= sub baddbmm")
_MASKING = _names("masked_fill masked_fill_ where []= masked_scatter copyto putmask") | ADDING
SPLITTING = _names(
    "view reshape permute transpose swapaxes flatten unflatten rearrange movedim moveaxis T mT "
    "view_as reshape_as chunk split unbind [] cat concat concatenate stack hstack"
)
REPEATING = _names("repeat repeat_interleave expand tile broadcast_to expand_as")
_DIVIDING, _EXP = _names("/ /= div div_ divide true_divide"), _names("exp exp_")
WHOLE = {"scaled_dot_product_attention": "context", "MultiheadAttention": "output"}


@dataclass(frozen=True, slots=True, eq=False)
class Done:
    """An expression as it was done: its values, what they are, and what they were read from."""

    name: str
    outer: bool
    own: bool
    values: tuple[Array, ...]
    matches: tuple[Match, ...]
    dtype: str

    @property
    def stages(self) -> tuple[str, ...]:
        return tuple(m.form.stage for m in self.matches if m.form.stage is not None)

    @property
    def known(self) -> bool:
        """Whether its values are a stage, or a step that leads to one."""
        return any(not m.form.label.startswith("softmax of") for m in self.matches)

    @property
    def final(self) -> Array | None:
        """The values as one array: those of all runs where they are alike, else the last."""
        if not self.values:
            return None
        if len(self.values) > 1 and len({v.shape for v in self.values}) == 1:
            return np.stack(self.values)
        return self.values[-1]

    @property
    def floats(self) -> list[Array]:
        """The values of every run, of the first ones where there are many, and of all together."""
        final = self.final
        if final is None or final.dtype.kind != "f":
            return []
        return [*self.values[:_MOST_RUNS], final]


def rank(stage: str) -> int:
    return CHAIN.index(stage) if stage in CHAIN else -1


def expected(one: Done, before: Sequence[Done], forms: Forms, reached: int) -> str | None:
    """The stage that an operation of this kind and size should give; None where it is unclear."""
    values = one.final
    if values is None or values.dtype.kind != "f":
        return None
    stages = forms.stages
    sizes = {name: stages[name].size for name in CHAIN if name in stages}
    maps = [name for name in MAPS if name in stages]
    if one.name in WHOLE:
        whole = WHOLE[one.name]
        return whole if sizes.get(whole) == values.size else forms.question.stage
    name = one.name.lower()
    if values.size == sizes["weights"] and "softmax" in name and "log" not in name:
        return "weights"
    if values.size == sizes["weights"] and _is_map(values, forms):
        if one.name in ("/", "div", "div_", "/=") and any(
            b.name in ("exp", "exp_") for b in before
        ):
            return "weights"
        if one.name in PRODUCTS and reached < 0:
            return "scores"
        if 0 <= reached < len(MAPS):
            return _next_map(one.name, maps, reached)
    if values.size == sizes["context"]:
        if one.name in PRODUCTS and reached < rank("context"):
            return "context" if reached >= 0 else None
        late = "merged" in sizes and one.name in SPLITTING and reached >= rank("context")
        if late and rearranged(values, forms.of("merged", one.dtype)):
            return "merged"
    if sizes.get("output") == values.size and one.name in LAYERS and reached >= rank("context"):
        return "output"
    return None


def _is_map(values: Array, forms: Forms) -> bool:
    """Whether the last two axes of any run are queries and keys, in whichever order."""
    _, _, L, S = forms.question.shape
    last = values.shape[-2:]
    return last in ((L, S), (S, L)) or values.shape[-1] in (L, S)


def _next_map(name: str, maps: Sequence[str], reached: int) -> str | None:
    """The step after `reached` that an operation of this name takes."""
    later = [stage for stage in maps if rank(stage) > reached]
    takes = {
        "scaled": _SCALING,
        "softcapped": _SCALING | {"tanh"},
        "biased": ADDING,
        "masked": _MASKING | {"*", "*=", "mul", "mul_", "multiply"},
    }
    return next((stage for stage in later if name in takes[stage]), None)
