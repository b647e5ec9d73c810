"""The measured rounding budget: how far right code may be from float64 on this very input.

Per stage and (batch, head): 3 × the largest error against float64 over three plain runs with
permuted summation order, plus 2 ulp of the stage's largest value. A plain run (`core/plain.py`)
shares no code with any engine: sums are kept in float32 or wider, and every stage is rounded to the
candidate's precision. Measured on the input at hand, it needs no tolerance that somebody chose. In
float64 the oracle rounds as much as the candidate, so there it is twice that
(`benchmarks/false_alarms.py`: once gives 4 false alarms in 17,500 comparisons, twice none in
42,000). Where q and k are made first, by projections or rotations, there are eight runs, most of
them noisy (`--layers`: none in 72,000). What permuted sums cannot show of alike summands and of
small arrays is added (`core/unlucky.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.plain import plain_item, plain_run
from attn_cli.core.plain_layer import PlainLayer
from attn_cli.core.rounding import precision
from attn_cli.core.trace import ALL_STAGES
from attn_cli.core.unlucky import drift, scaled_first, swayed, ulp_of_scores

__all__ = ["FACTOR", "RUNS", "ULPS", "least_budget", "measure_budget", "plain_run"]

Array = NDArray[Any]

RUNS = 3
ENTERING = ("q_rotated", "k_rotated", "v")  # the product of the scores, and that of the values
LAYER_RUNS = 8  # where q and k are made first: what they are off by is multiplied in the scores
FACTOR = 3.0
ULPS = 2.0


def measure_budget(
    inputs: AttentionInputs, oracle: Mapping[str, Array], *, dtype: str, seed: int = 0
) -> dict[str, Array]:
    """The budget of every stage that `oracle` holds, with axes of 1 to broadcast over the stage.

    `oracle` maps stages to the float64 answer. A stage with heads has a budget (B, heads, 1, 1),
    k and v one for each key/value head; one without, such as merged, has (B, 1, 1). Elements that
    are not finite are left out: they are compared as classes. Memory: one (batch, head) of the
    scores at a time.
    """
    right = {name: oracle[name] for name in ALL_STAGES if name in oracle}
    errors = {name: np.zeros(_per_head(array)) for name, array in right.items()}
    with np.errstate(all="ignore"):
        for b in range(inputs.shape[0]):
            _add_errors(errors, inputs, b, right, dtype, seed)
    least = least_budget(right, dtype=dtype)
    return {name: _sides(dtype) * FACTOR * errors[name] + least[name] for name in right}


def least_budget(oracle: Mapping[str, Array], *, dtype: str) -> dict[str, Array]:
    """What `measure_budget` gives at least: its ulps alone, which no run has to show."""
    ulp = precision(dtype).ulp
    return {name: _sides(dtype) * ULPS * ulp(_largest(array)) for name, array in oracle.items()}


def _sides(dtype: str) -> float:
    """How many computations round as much as the candidate: in float64 the oracle does as well."""
    return 2.0 if dtype == "float64" else 1.0


def _add_errors(
    errors: Mapping[str, Array],
    inputs: AttentionInputs,
    b: int,
    right: Mapping[str, Array],
    dtype: str,
    seed: int,
) -> None:
    """The largest error of each stage over the plain runs of one batch item, put into `errors`."""
    heads = inputs.shape[1]
    *orders, rng = (np.random.default_rng([seed, b, h]) for h in range(heads + 1))
    made = inputs.origin is not None or inputs.rotation is not None
    for run in range(LAYER_RUNS if made else RUNS):
        layer = PlainLayer(dtype, rng, fused=run % 2 == 0, noisy=run > 1)
        head_stages: dict[str, Array] = {}
        of_keys: dict[tuple[str, int | None], Array] = {}
        for name, head, array in plain_item(inputs, b, layer=layer, orders=orders):
            if run == 0 and name in ENTERING:
                of_keys[name, head] = array
            elif run == 0 and head is not None:
                head_stages[name] = array
                if name == "context":
                    _add_unlucky(errors, inputs, (b, head), of_keys, head_stages, dtype)
            if name in right:
                at = (b,) if head is None else (b, head)
                values = np.asarray(right[name][at], np.float64)
                both = np.isfinite(array) & np.isfinite(values)
                error = np.abs(array[both].astype(np.float64) - values[both]).max(initial=0.0)
                errors[name][at] = np.maximum(errors[name][at], error)


def _add_unlucky(
    errors: Mapping[str, Array],
    inputs: AttentionInputs,
    at: tuple[int, int],
    entering: Mapping[tuple[str, int | None], Array],
    stages: Mapping[str, Array],
    dtype: str,
) -> None:
    """What one head's permuted sums do not show, and what scores an ulp off sway."""
    head = at[1]
    kv = head // (inputs.shape[1] // inputs.kv_heads)
    q, k, v = entering["q_rotated", head], entering["k_rotated", kv], entering["v", kv]
    of_scores = drift(q, k.T, dtype)
    scaled = of_scores * abs(inputs.effective_scale)
    early = scaled_first(q, k, dtype) * abs(inputs.effective_scale)
    sink = 0.0 if inputs.sinks is None else inputs.sinks[head]
    delta = ulp_of_scores(stages["masked"], dtype, sink) + FACTOR * max(scaled, early)
    weights, context = swayed(stages["weights"], v, delta)
    found = dict.fromkeys(("scaled", "softcapped", "biased", "masked"), scaled)
    found |= {"scores": of_scores, **_onward("context", drift(stages["weights"], v, dtype), inputs)}
    _raise(errors, found, at)
    _raise(
        errors, {"weights": weights / FACTOR, **_onward("context", context / FACTOR, inputs)}, at
    )


def _onward(stage: str, error: float, inputs: AttentionInputs) -> dict[str, float]:
    """An error of the context, and what becomes of it in the stages behind."""
    output = error
    if (w_o := inputs.output_projection) is not None and w_o.w_o is not None:
        output = error * float(np.sqrt(np.square(w_o.w_o.astype(np.float64)).sum(0)).max())
    return {stage: error, "merged": error, "output": output}


def _raise(budgets: Mapping[str, Array], found: Mapping[str, float], at: tuple[int, int]) -> None:
    """The larger of what is there and what was found; without heads, that of the whole item."""
    for name, size in found.items():
        if name in budgets:
            place = at if budgets[name].ndim == 4 else at[:1]
            budgets[name][place] = np.maximum(budgets[name][place], size)


def _per_head(array: Array) -> tuple[int, ...]:
    """The shape of a stage's budget: its last two axes are 1."""
    return (*array.shape[:-2], 1, 1)


def _largest(array: Array) -> Array:
    """The largest finite size of each item and head, 0 where nothing is finite."""
    sizes = np.abs(np.where(np.isfinite(array), array, 0).astype(np.float64))
    largest: Array = sizes.max((-2, -1), keepdims=True)
    return largest
