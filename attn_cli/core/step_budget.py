"""Step budget: how far right code may be from the next stage, and what a stage held should be."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from attn_cli.core.budget import FACTOR, LAYER_RUNS, RUNS, ULPS
from attn_cli.core.compare import apart
from attn_cli.core.onestep import (
    Arithmetic,
    Array,
    Rule,
    Stages,
    entering,
    next_stages,
    per_query_head,
)
from attn_cli.core.rounding import precision
from attn_cli.core.unlucky import drift, scaled_first, swayed, ulp_of_scores

# One step alone leaves little for plain runs to measure: what is left is how the libraries' exp
# differ, by an ulp or two in the same direction in every run. 2 ulp, which do for whole runs, give
# 3 false alarms in 3,200.
STEP_ULPS = 2 * ULPS
SCORES_ON = ("scaled", "softcapped", "biased", "masked")


def step_budget(
    rule: Rule, held: Stages, right: Stages, *, dtype: str, seed: int = 0
) -> dict[str, Array]:
    """How far right code in `dtype` may be from `right`, the exact next stages of `held`.

    One number a head, with axes of 1 to broadcast over the stage: 3 × the largest error of the
    plain runs of the one step, plus 4 ulp of the stage's largest value; twice that in float64.
    """
    errors = {name: np.zeros((*array.shape[:-2], 1, 1)) for name, array in right.items()}
    made = rule.origin is not None or rule.rotation is not None
    for run in range(LAYER_RUNS if made else RUNS):
        by = Arithmetic(dtype, np.random.default_rng([seed, run]), fused=run % 2 == 0)
        for name, array in next_stages(rule, held, by).items():
            if name in right:
                both = np.isfinite(array) & np.isfinite(right[name])
                gap = np.abs(np.where(both, array, 0) - np.where(both, right[name], 0))
                errors[name] = np.maximum(errors[name], gap.max((-2, -1), keepdims=True))
    least = floor(right, dtype)
    sides = 2.0 if dtype == "float64" else 1.0
    with np.errstate(all="ignore"):
        _unlucky(rule, held, errors, dtype)
    return {name: sides * FACTOR * errors[name] + least[name] for name in right}


def _unlucky(rule: Rule, held: Stages, errors: dict[str, Array], dtype: str) -> None:
    """Raises `errors` by what permuted sums do not show (`core/unlucky.py`).

    An error goes on through the stages that are made of it, as far as none is held.
    """
    stages = {**next_stages(rule, held), **held}
    q, k, v = (entering(name, stages.get) for name in ("q", "k", "v"))
    of_scores: Array = np.zeros((1, 1, 1, 1))
    if q is not None and k is not None:
        k = per_query_head(k, q.shape[1])
        drifts = _of_heads(drift(a, b.T, dtype) for a, b in zip(q[0], k[0], strict=True))
        of_scores = drifts * abs(rule.factor)
        of_scores = _raise(errors, held, ("scores",), of_scores)
        of_scores = of_scores * abs(1.0 if rule.scale is None else rule.scale)
        of_scores = _raise(errors, held, SCORES_ON, of_scores)
        if not {"scores", *SCORES_ON} & held.keys():
            early = _of_heads(scaled_first(a, b, dtype) for a, b in zip(q[0], k[0], strict=True))
            of_scores = np.maximum(
                of_scores, early * abs(1.0 if rule.scale is None else rule.scale)
            )
    last = next((name for name in (*SCORES_ON[::-1], "scores") if name in stages), None)
    weights = stages.get("weights")
    if weights is None:
        return
    v = np.zeros((1, 1, weights.shape[-1], 0)) if v is None else v
    v = per_query_head(v, weights.shape[1])
    drifts = _of_heads(drift(w, x, dtype) for w, x in zip(weights[0], v[0], strict=True))
    _raise(errors, held, ("context", "merged"), drifts)
    if last is not None:
        sinks = 0.0 if rule.sinks is None else rule.sinks[:, None, None]
        ulps = ulp_of_scores(stages[last], dtype, sinks)
        delta = ulps / 2 if last in held else ulps + FACTOR * of_scores
        found = [swayed(*head) for head in zip(weights[0], v[0], delta[0], strict=True)]
        _raise(errors, held, ("weights",), _of_heads(w for w, _ in found) / FACTOR)
        if "weights" not in held:
            sums = _of_heads(c for _, c in found) / FACTOR
            _raise(errors, held, ("context", "merged"), sums)


def _raise(errors: dict[str, Array], held: Stages, names: Iterable[str], size: Array) -> Array:
    """Raises the errors of stages in a row to `size`, one a head; 0 behind one that is held."""
    for name in names:
        if name in errors:
            of_stage = size if errors[name].ndim == 4 else size.max(1)
            errors[name] = np.maximum(errors[name], of_stage)
        if name in held:
            return np.zeros_like(size)
    return size


def _of_heads(numbers: Iterable[float]) -> Array:
    return np.array(list(numbers))[None, :, None, None]


def fault_free(
    rule: Rule, held: Stages, *, dtype: str, seed: int = 0
) -> dict[str, tuple[Array, Array]]:
    """What each stage of `held` should be by the one before it, and how far off it may be.

    Plain runs are made only where some stage is farther off than 4 ulp of its largest value.
    """
    right = {name: made for name, made in next_stages(rule, held).items() if name in held}
    right = {name: made for name, made in right.items() if made.shape == held[name].shape}
    budget = floor(right, dtype)
    if not all(_within(held[name], made, budget[name]) for name, made in right.items()):
        budget = step_budget(rule, held, right, dtype=dtype, seed=seed)
    return {name: (made, budget[name]) for name, made in right.items()}


def _within(array: Array, right: Array, budget: Array) -> bool:
    gap, other_class, _ = apart(array, right)
    return not other_class.any() and bool((gap <= budget).all())


def floor(right: Stages, dtype: str) -> dict[str, Array]:
    """The part of the budget that needs no plain run: 4 ulp of the largest value of each head."""
    sides = 2.0 if dtype == "float64" else 1.0
    return {
        name: sides
        * STEP_ULPS
        * precision(dtype).ulp(
            np.abs(np.where(np.isfinite(array), array, 0)).max((-2, -1), keepdims=True)
        )
        for name, array in right.items()
    }
