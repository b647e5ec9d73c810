"""Mistakes in stages: what of the catalogue makes the stages of a file that do not follow."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results_impl import Alternative, FoundMistake
from attn_cli.core.results_mistakes import Diagnosis
from attn_cli.core.slicing import one_head, one_item
from attn_cli.diagnosis.dumped.case import Case, cases
from attn_cli.diagnosis.dumped.explaining import (
    Dumped,
    DumpExplanation,
    Explained,
    explain_dump,
)
from attn_cli.diagnosis.dumped.running import MADE, predict
from attn_cli.workflows.diff_conventions import cut

Array = NDArray[Any]
MOST = 1 << 18  # scores that the search looks at: with more, one item alone, then one head
LARGEST = 1 << 24  # scores of one head: with more, hundreds of mistakes take too long
KNOWN = frozenset(stage for made in MADE.values() for stage, _ in made)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Wrong:
    """Stages of a file, and which of them do not follow from those before (`stages`).

    `order` has all of them in the order of the formula; `factor` is what the scores hold already.
    `at` is the item and head where the first wrong stage is farthest off; `own_first` says that a
    mask is rather the code's own.
    """

    held: Mapping[str, Array]
    order: tuple[str, ...]
    stages: tuple[str, ...]
    dtype: str
    factor: float = 1.0
    units: Mapping[str, float] = dataclasses.field(default_factory=dict)
    at: tuple[int, int] = (0, 0)
    own_first: bool = True


def explain_stages(wrong: Wrong, inputs: AttentionInputs) -> Diagnosis:
    """The mistakes that make the wrong stages of those before them, as far as any do."""
    known = {name: wrong.held[name] for name in wrong.order if name in KNOWN}
    _, _, L, S = inputs.shape
    if L * S > LARGEST:
        return Diagnosis(unexplained=wrong.stages, whole=False)
    held, inputs = _narrowed(_plain(known, wrong.factor), inputs, wrong.at)
    names = tuple(name for name in wrong.order if name in held)
    found = cases(inputs, held, own_first=wrong.own_first)
    right = _right(found[0], held, names, [name for name in wrong.stages if name in held])
    looked_for = tuple(name for name in wrong.stages if name in right)
    if not looked_for:
        return Diagnosis(unexplained=wrong.stages)
    dumped = Dumped(held, names, looked_for, right, wrong.dtype, wrong.units)
    return _diagnosis(explain_dump(dumped, found), wrong)


def _narrowed(
    held: dict[str, Array], inputs: AttentionInputs, at: tuple[int, int]
) -> tuple[dict[str, Array], AttentionInputs]:
    """The part that the search looks at: all of it, one item, or one head."""
    B, H, L, S = inputs.shape
    if B * H * L * S <= MOST:
        return held, inputs
    b, h = at
    if H * L * S <= MOST:
        return cut(held, b, None, 1), one_item(inputs, b)
    return cut(held, b, h, H // inputs.kv_heads), one_head(inputs, b, h)


def _plain(held: dict[str, Array], factor: float) -> dict[str, Array]:
    """The stages as the formula has them: scores without a scale."""
    plain = {name: np.asarray(array, np.float64) for name, array in held.items()}
    if "scores" in plain and factor not in (0.0, 1.0):
        plain["scores"] = plain["scores"] / factor
    return plain


def _right(
    case: Case, held: Mapping[str, Array], order: tuple[str, ...], stages: Iterable[str]
) -> dict[str, Array]:
    """What the right formula makes of the stages before each one."""
    right = {}
    for stage in stages:
        given = {name: held[name] for name in order[: order.index(stage)]}
        made = predict(case, {}, given)
        arrays = () if made is None else made.stages.get(stage, ())
        fitting = [array for array in arrays if array.shape == held[stage].shape]
        if fitting:
            right[stage] = fitting[-1]
    return right


def _diagnosis(explained: Explained, wrong: Wrong) -> Diagnosis:
    mistakes, alternatives = [], []
    for group in explained.groups:
        first, *others = group
        mistakes += _found(first)
        alternatives += [_alternative(other) for other in others]
    explains = {name for group in explained.groups for one in group for name in one.stages}
    return Diagnosis(
        mistakes=tuple(mistakes),
        alternatives=tuple(alternatives),
        unexplained=tuple(name for name in wrong.stages if name not in explains),
        tried=explained.tried,
        whole=explained.whole,
    )


def _found(explanation: DumpExplanation) -> list[FoundMistake]:
    stages = ", ".join(explanation.stages)
    evidence = (
        f"the formula with this mistake makes {stages} of the stages before, within rounding",
        f"{explanation.elements:,} numbers were compared; the right formula does not make them",
    )
    return [
        FoundMistake(
            code=mistake.code,
            title=mistake.title,
            stage=mistake.stage,
            explanation=mistake.explanation,
            evidence=evidence,
            fix=mistake.fix,
            note=note,
        )
        for mistake, note in zip(explanation.mistakes, explanation.notes, strict=True)
    ]


def _alternative(explanation: DumpExplanation) -> Alternative:
    first, *others = explanation.mistakes
    codes = tuple(other.code for other in others)
    return Alternative(first.code, first.title, first.tell_apart, codes)
