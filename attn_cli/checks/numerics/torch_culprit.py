"""The culprit: what made the first number that is not finite, and what helps, tried."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attn_cli.checks.numerics import causes
from attn_cli.checks.numerics.causes import Cause
from attn_cli.checks.numerics.given import GivenArray
from attn_cli.checks.numerics.torch_blocks import (
    Way,
    around,
    block,
    entering,
    given,
    tensor,
    to_float64,
)
from attn_cli.checks.numerics.torch_hunt import INPUTS, Scan, scan
from attn_cli.checks.places import key_name, query_name
from attn_cli.core.findings import Place
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results_numerics import Attempt, Culprit, StageCount, Term
from attn_cli.core.rounding import PRECISIONS
from attn_cli.core.trace import BEFORE

Array = NDArray[Any]

TERMS = 4  # products that are shown; those around the limit follow them


@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """The operands of one number: Σ left · right + start."""

    left: Array
    right: Array
    start: float = 0.0


def of_input(array: GivenArray, inputs: AttentionInputs, dtype: str) -> Culprit:
    """The input brings it, or holds what the precision cannot."""
    value = array.value
    finite = math.isfinite(value)
    cause = causes.beyond(array.label, value, dtype) if finite else None
    where = f"{array.label}, {array.words(inputs)}".removesuffix(", ")
    return _plain(
        INPUTS,
        array.place(),
        cause or causes.not_a_number(array.label, value),
        dtype,
        where=where,
        value=math.copysign(math.inf, value) if finite else value,
        exact=value,
    )


def of_step(count: StageCount, formula: str, dtype: str) -> Culprit:
    """A step around a model's attention that is not finite."""
    cause = causes.of_stream(count.stage, formula, dtype)
    return _plain(count.stage, Place(stage=count.stage), cause, dtype, where=count.words)


def carried(stage: str, layer: int, dtype: str) -> Culprit:
    """What came out of the layer before."""
    return _plain(stage, Place(stage=stage, layer=layer), causes.carried(layer), dtype)


def _plain(
    stage: str,
    place: Place,
    cause: Cause,
    dtype: str,
    *,
    where: str = "",
    value: float = math.nan,
    exact: float = math.nan,
) -> Culprit:
    """A culprit that no product and no remedy goes with."""
    return Culprit(
        stage=stage,
        place=place,
        where=where,
        value=value,
        exact=exact,
        limit=PRECISIONS[dtype].largest,
        cause=cause.code,
        words=cause.words,
        fix=cause.fix,
    )


def of_stage(inputs: AttentionInputs, found: Scan, count: StageCount) -> Culprit:
    """The operands of the first bad number of a stage, and every remedy that applies, run."""
    tally, dtype = found.tallies[count.stage], found.way.dtype
    assert tally.first is not None
    assert count.first is not None
    limit = PRECISIONS[dtype].largest
    made = product_of(inputs, count.stage, tally.first, dtype)
    terms, passed, exact = ((), None, math.nan) if made is None else _terms(made, limit)
    operands, whole = _step(inputs, count.stage, tally.first, dtype)
    cause = _why(inputs, count.stage, tally.first, found)
    return Culprit(
        stage=count.stage,
        place=count.first,
        where=count.words,
        value=tally.value,
        exact=whole if made is None else exact,
        limit=limit,
        cause=cause.code,
        words=cause.words,
        fix=cause.fix,
        terms=terms,
        terms_total=0 if made is None else len(made.left),
        passed=passed,
        operands=operands,
        attempts=tuple(_attempts(inputs, count.stage, dtype)),
    )


def _step(
    inputs: AttentionInputs, stage: str, where: tuple[int, ...], dtype: str
) -> tuple[tuple[tuple[str, float], ...], float]:
    """The named numbers that one step took, and what it makes of them in float64."""
    if stage not in ("scaled", "biased", "masked"):
        return (), math.nan
    batch, head, query, key = where
    rows, qkv = np.array([query]), entering(given(inputs, batch, dtype))
    stages = block(inputs, batch, head, rows, qkv, Way(dtype=dtype)).stages
    if stage == "scaled":
        score, factor = float(stages["scores"][0, key]), inputs.effective_scale
        return (("score", score), ("scale", factor)), score * factor
    before = BEFORE[stage]
    _, added, bias = around(inputs, batch, head, rows)
    array, name = (added, "mask") if stage == "masked" else (bias, "bias")
    if array is None:
        return (), math.nan
    left, right = float(stages[before][0, key]), float(array[0, key])
    return ((before, left), (name, right)), left + right


def product_of(
    inputs: AttentionInputs, stage: str, where: tuple[int, ...], dtype: str
) -> Sum | None:
    """What was multiplied for one number of a stage that is a product; None for other stages."""
    batch = where[0]
    if stage in ("q", "k", "v"):
        return _projection(inputs, stage, where, dtype)
    stages = given(inputs, batch, dtype)
    qkv = entering(stages)
    if stage == "scores":
        _, head, query, key = where
        kv = head // (inputs.shape[1] // inputs.kv_heads)
        return Sum(to_float64(qkv[0][head, query]), to_float64(qkv[1][kv, key]))
    if stage == "context":
        _, head, query, feature = where
        part = block(inputs, batch, head, np.array([query]), qkv, Way(dtype=dtype))
        return Sum(to_float64(part.stages["weights"][0]), to_float64(part.v[:, feature]))
    if stage == "output" and (weights := inputs.output_projection) is not None:
        _, query, feature = where
        way, heads = Way(dtype=dtype), range(inputs.shape[1])
        parts = [block(inputs, batch, head, np.array([query]), qkv, way) for head in heads]
        merged = torch.cat([part.stages["context"][0] for part in parts])
        assert weights.w_o is not None
        column = to_float64(tensor(weights.w_o[:, feature], dtype))
        start = 0.0 if weights.b_o is None else float(weights.b_o[feature])
        return Sum(to_float64(merged), column, start)
    return None


def _projection(
    inputs: AttentionInputs, name: str, where: tuple[int, ...], dtype: str
) -> Sum | None:
    origin = inputs.origin
    if origin is None or origin.projections is None:
        return None
    batch, head, token, feature = where
    stages = given(inputs, batch, dtype)
    x = to_float64(stages.get("x_positions", stages["x"])[token])
    if origin.context is not None and name != "q":
        x = np.asarray(origin.context[batch][token], np.float64)
    column = head * stages[name].shape[-1] + feature
    bias = getattr(origin.projections, f"b_{name}")
    matrix = getattr(origin.projections, f"w_{name}")
    start = 0.0 if bias is None else float(bias[column])
    return Sum(x, to_float64(tensor(matrix[:, column], dtype)), start)


def _terms(made: Sum, limit: float) -> tuple[tuple[Term, ...], int | None, float]:
    """The first products and the one with which the sum passes the limit; where; the whole sum."""
    with np.errstate(all="ignore"):
        products = made.left * made.right
        partial = made.start + products.cumsum()
    over = ~(np.abs(partial) <= limit)
    passed = int(over.argmax()) if over.any() else None
    shown = set(range(min(TERMS, len(products))))
    if passed is not None:
        shown |= {passed - 1, passed} - {-1}
    terms = tuple(
        Term(i, *(float(a[i]) for a in (made.left, made.right, products, partial)))
        for i in sorted(shown)
    )
    return terms, passed, float(partial[-1])


def _why(inputs: AttentionInputs, stage: str, where: tuple[int, ...], found: Scan) -> Cause:
    """What happened and what helps."""
    dtype = found.way.dtype
    if stage == "scores":
        query, key = query_name(inputs, where[0], where[2]), key_name(inputs, where[0], where[3])
        return causes.score(query, key, dtype)
    if stage == "weights":
        batch, head, query_number = where[:3]
        qkv = entering(given(inputs, batch, dtype))
        part = block(inputs, batch, head, np.array([query_number]), qkv, found.way)
        if bool(torch.isneginf(part.stages["masked"]).all()):
            return causes.row_of_infinity(query_name(inputs, batch, query_number), dtype)
    return causes.of_stage(stage, dtype)


def _attempts(inputs: AttentionInputs, stage: str, dtype: str) -> list[Attempt]:
    """The remedies that apply to a stage, each run over the whole layer."""
    factor = inputs.effective_scale
    tries: list[tuple[str, Way]] = []
    if stage in ("scores", "scaled") and 0 < factor < 1:
        tries.append(("scale q before the product", Way(dtype=dtype, first="q")))
        tries.append(("scale q and k by √scale each", Way(dtype=dtype, first="both")))
    elif stage in ("scores", "scaled"):
        d_k = inputs.q.shape[-1]
        way = Way(dtype=dtype, scale=d_k**-0.5, first="q")
        tries.append((f"q ÷ √{d_k} before the product, which is another formula", way))
    wider = {"float16": ("bfloat16", "float32"), "bfloat16": ("float32",), "float32": ("float64",)}
    tries += [(f"all in {wide}", Way(dtype=wide)) for wide in wider.get(dtype, ())]
    return [_attempt(inputs, stage, what, way) for what, way in tries]


def _attempt(inputs: AttentionInputs, stage: str, what: str, way: Way) -> Attempt:
    found = scan(inputs, way)
    return Attempt(what, found.first, found.bad(stage), found.largest.get(stage, math.nan))
