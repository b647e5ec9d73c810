"""Given: where q, k and v of a row came from: positions added, projections, positions turned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attn_cli.core.decimals import total, written
from attn_cli.core.explanation import Line, Step, Term
from attn_cli.core.layer import Origin, Projections
from attn_cli.workflows.paper.row import Array
from attn_cli.workflows.paper.sheet import Decimals, Factor, Sheet, completed, dots
from attn_cli.workflows.paper.turned import turned


def vector(sheet: Sheet) -> tuple[list[Step], Decimals]:
    """x of the query, positions added where there are any; nothing where q, k and v came alone."""
    row, inputs = sheet.row, sheet.row.inputs
    if inputs.x is None:
        return [], []
    x = sheet.given(row["x"].tolist())
    steps = [Step("x", "given", row.formula("x"), _given(x))]
    origin = inputs.origin
    if origin is None or origin.encoding is None:
        return steps, x
    encoding = sheet.given(origin.encoding[row.query].tolist())
    sums = written([total(pair) for pair in zip(x, encoding, strict=True)], sheet.carried)
    lines = (
        Line(str(i), result, (Term(a, name="x"), Term(p, name="position")), i)
        for i, (a, p, result) in enumerate(zip(x, encoding, sums, strict=True))
    )
    return [*steps, Step("x_positions", "sum", "x + positions", tuple(lines))], sums


def query(sheet: Sheet, x: Decimals) -> tuple[list[Step], Decimals]:
    """q of this head, projected and turned as it was."""
    row, inputs = sheet.row, sheet.row.inputs
    width = inputs.q.shape[3]
    start = sheet.head * width
    if inputs.origin is not None and inputs.origin.projections is not None:
        step = _projected(sheet, inputs.origin.projections, x)
    else:
        q = x[start : start + width] if x else sheet.given(row["q"][sheet.head].tolist())
        step = Step("q", "given", row.formula("q"), _given(q), sheet.head)
    if inputs.rotation is None:
        return [step], list(step.results)
    steps = [step, *turned(sheet, inputs.rotation, list(step.results))]
    return steps, list(steps[-1].results)


def keys_and_values(sheet: Sheet) -> tuple[list[Step], list[Decimals], list[Decimals]]:
    """k and v of the written keys; of projected ones, one feature of the heaviest worked out."""
    row, keys = sheet.row, sheet.keys
    kv = row.kv_head(sheet.head)
    k = sheet.given_rows(row.turned("k")[kv][keys])
    v = sheet.given_rows(row["v"][kv][keys])
    origin = row.inputs.origin
    if origin is None or origin.projections is None or not keys:
        return [], k, v
    weights = row["weights"][sheet.head]
    key = max(keys, key=lambda key: (weights[key], -key))
    steps = [_example(sheet, origin, name, key) for name in ("k", "v")]
    for step, rows in zip(steps, (k, v), strict=True):
        if step.stage == "v" or row.inputs.rotation is None:  # a turned k is another
            (line,) = step.lines
            rows[keys.index(key)][line.index or 0] = line.result
    return steps, k, v


def _given(numbers: Decimals) -> tuple[Line, ...]:
    return tuple(Line(str(i), number, index=i) for i, number in enumerate(numbers))


def _projected(sheet: Sheet, weights: Projections, x: Decimals) -> Step:
    """This head's part of x · W_q + b_q, its first features worked out."""
    made = sheet.row["q"][sheet.head]
    factors = columns(sheet, weights.w_q, weights.b_q, sheet.worked(made), sheet.head * len(made))
    lines = completed(dots(x, factors, digits=sheet.carried), sheet.given(made.tolist()))
    encoded = sheet.row.inputs.origin is not None and sheet.row.inputs.origin.encoding is not None
    names = ("x_positions" if encoded else "x", "W_q")
    return Step("q", "dot", sheet.row.formula("q"), lines, sheet.head, "feature", names)


def columns(
    sheet: Sheet, weight: Array, bias: Array | None, features: Sequence[int], start: int = 0
) -> list[Factor]:
    """Columns of a weight matrix (in, out), with the bias of each; feature 0 is column `start`."""
    places = [start + feature for feature in features]
    numbers = sheet.given_rows(weight[:, places].T)
    added = [None] * len(places) if bias is None else sheet.given(bias[places].tolist())
    return [
        Factor(str(feature), feature, number, extra)
        for feature, number, extra in zip(features, numbers, added, strict=True)
    ]


def _example(sheet: Sheet, origin: Origin, name: str, key: int) -> Step:
    """The largest feature of one key's k or v: y · W + b."""
    vectors, y = _attended(origin, sheet.row.item, key)
    weights = origin.projections
    assert weights is not None
    weight, bias = (weights.w_k, weights.b_k) if name == "k" else (weights.w_v, weights.b_v)
    kv = sheet.row.kv_head(sheet.head)
    made = sheet.row[name][kv][key]
    feature = int(np.abs(made).argmax())
    factors = columns(sheet, weight, bias, [feature], kv * len(made))
    lines = dots(sheet.given(y.tolist()), factors, digits=sheet.carried)
    formula = f"{vectors} · W_{name}{'' if bias is None else f' + b_{name}'}"
    names = (vectors, f"W_{name}")
    return Step(name, "dot", formula, lines, sheet.head, "feature", names, key=key)


def _attended(origin: Origin, item: int, key: int) -> tuple[str, Array]:
    """The vector that a key and its value are made from, positions added, and its name."""
    if origin.context is None:
        source, encoding, name = origin.x, origin.encoding, "x"
    else:
        source, encoding, name = origin.context, origin.context_encoding, "context"
    if encoding is None:
        return name, source[item, key]
    return f"{name}_positions", source[item, key] + encoding[key]
