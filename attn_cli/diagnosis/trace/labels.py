"""Labels: which stages of the reference the values of an expression are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.compare import StageDiff, compare
from attn_cli.diagnosis.trace.arrange import arranged, arrangements, named, scrambled
from attn_cli.diagnosis.trace.stages import Form, Forms

Array = NDArray[Any]

MOST_TILES = 64
_INTERLEAVED = (1, 2, 3)  # q, k and v go through one expression in turn


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """A form that values are, and the names of their axes."""

    form: Form
    axes: tuple[str, ...]


def match(values: Array, forms: Sequence[Form]) -> Match | None:
    """The form that the values are within its budget; of several, the one of as many axes."""
    found: Match | None = None
    for form in forms:
        if form.array.size != values.size:
            continue
        for order in arrangements(form.array.shape, values.shape, form.folds):
            if _diff(values, form, order).verdict == "different":
                continue
            axes = named(order, form.array.shape, form.axes, values.shape)
            if found is None or (
                found.form.array.ndim != values.ndim and form.array.ndim == values.ndim
            ):
                found = Match(form, axes)
            break
    return found


def matches(runs: Sequence[Array], forms: Sequence[Form]) -> tuple[Match, ...]:
    """The forms that the values of one expression are, run by run or all runs together."""
    if not runs:
        return ()
    single = [found for run in _few(runs) if (found := match(run, forms)) is not None]
    if single or len(runs) == 1:
        return tuple(_different(single))
    for step in _INTERLEAVED:
        if len(runs) % step == 0 and len({run.shape for run in runs}) == 1:
            stacked = [np.stack(runs[start::step]) for start in range(step)]
            together = [match(stack, forms) for stack in stacked]
            if all(found is not None for found in together):
                return tuple(Match(f.form, f.axes[1:]) for f in together if f is not None)
    tiles = _tiled(runs, forms)
    return () if tiles is None else (tiles,)


def _tiled(runs: Sequence[Array], forms: Sequence[Form]) -> Match | None:
    """The form that the runs are side by side, as tiles of queries or keys."""
    ranks = {run.ndim for run in runs}
    if len(runs) > MOST_TILES or len(ranks) > 1:
        return None
    for axis in range(max(ranks)):
        others = {(*run.shape[:axis], *run.shape[axis + 1 :]) for run in runs}
        if len(others) == 1 and (found := match(np.concatenate(runs, axis), forms)) is not None:
            return found
    return None


def nearest(values: Array, forms: Sequence[Form]) -> tuple[StageDiff, Array, Form] | None:
    """How the values differ from the form they come nearest to, and they in its axes.

    None where no arrangement has their shape.
    """
    best: tuple[StageDiff, Array, Form] | None = None
    for form in forms:
        if form.array.size != values.size:
            continue
        for order in arrangements(form.array.shape, values.shape, form.folds):
            diff = _diff(values, form, order)
            if best is None or diff.beyond < best[0].beyond:
                best = diff, arranged(values, order, form.array.shape), form
    return best


def rearranged(values: Array, forms: Sequence[Form]) -> bool:
    """Whether they are the numbers of one of the forms in an order that is none of its own."""
    return any(
        scrambled(values, form.array, float(np.max(form.budget)), form.folds)
        for form in forms
        if form.stage is not None
    )


def _diff(values: Array, form: Form, order: tuple[int, ...]) -> StageDiff:
    back = form.made_alike(arranged(values, order, form.array.shape).astype(np.float64))
    return compare(back, form.array, budget=form.budget, dtype="float64")


def _few(runs: Sequence[Array]) -> Sequence[Array]:
    """All runs where they are few, else the first ones and the last."""
    return runs if len(runs) <= 24 else [*runs[:12], runs[-1]]


def _different(found: Sequence[Match]) -> Iterator[Match]:
    seen: set[str] = set()
    for one in found:
        if one.form.label not in seen:
            seen.add(one.form.label)
            yield one


__all__ = ["Forms", "Match", "match", "matches", "nearest", "rearranged"]
