"""Output on paper: weights · v feature by feature, the heads side by side, the projection."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from attn_cli.core.decimals import ZERO, given
from attn_cli.core.explanation import Line, Rest, Step, Term
from attn_cli.workflows.paper.given import columns
from attn_cli.workflows.paper.sheet import Decimals, Factor, Sheet, completed, dots


def context(sheet: Sheet, weights: Decimals, v: Sequence[Decimals]) -> Step:
    """Σ weight · v of every feature, the first ones worked out; 0 where the row sees no key."""
    made = sheet.row["context"][sheet.head]
    if not sheet.visible:
        lines = tuple(Line(str(i), ZERO, index=i) for i in range(len(made)))
        return Step("context", "given", "no visible key: 0", lines, sheet.head)
    features = sheet.worked(made)
    rests = _rests(sheet, features)
    factors = [
        Factor(str(feature), feature, [row[feature] for row in v], rest=rest)
        for feature, rest in zip(features, rests, strict=True)
    ]
    worked = dots(
        weights,
        factors,
        digits=sheet.digits.weights,
        result_digits=sheet.digits.context,
        at=sheet.keys,
    )
    lines = completed(worked, given(made.tolist(), sheet.digits.context))
    return Step("context", "dot", "weights · v", lines, sheet.head, "key", ("weights", "v"))


def _rests(sheet: Sheet, features: Sequence[int]) -> list[Rest | None]:
    """What the keys that are not written add to every feature."""
    others = sheet.others
    if not others:
        return [None] * len(features)
    weights = sheet.row["weights"][sheet.head][others]
    values = sheet.row["v"][sheet.row.kv_head(sheet.head)][others][:, features]
    with np.errstate(all="ignore"):
        sums = weights @ values
    numbers = given(sums.tolist(), sheet.digits.weights)
    return [Rest(len(others), number) for number in numbers]


def outputs(sheet: Sheet, contexts: dict[int, Step]) -> list[Step]:
    """The steps behind the heads: of q, k and v each head's context, of token vectors the heads
    side by side and, where the layer has it, their projection."""
    inputs = sheet.row.inputs
    if inputs.x is None:
        return [_same("output", "= context", step.results, head) for head, step in contexts.items()]
    merged = _merged(sheet, contexts)
    step = _same("merged", "heads side by side", merged, None)
    layer = inputs.output_projection
    if layer is None:
        return [step, _same("output", "= merged", merged, None)]
    made = sheet.row["output"]
    assert layer.w_o is not None
    worked = dots(
        merged,
        columns(sheet, layer.w_o, layer.b_o, sheet.worked(made)),
        digits=sheet.digits.context,
        result_digits=sheet.digits.output,
    )
    formula = f"merged · W_o{'' if layer.b_o is None else ' + b_o'}"
    lines = completed(worked, given(made.tolist(), sheet.digits.output))
    return [step, Step("output", "dot", formula, lines, None, "feature", ("merged", "W_o"))]


def _merged(sheet: Sheet, contexts: dict[int, Step]) -> Decimals:
    """Every head's context, head 0 first; of heads that are not shown as the engine has it."""
    rows = sheet.row["context"].tolist()
    return [
        number
        for head, made in enumerate(rows)
        for number in (
            contexts[head].results if head in contexts else given(made, sheet.digits.context)
        )
    ]


def _same(stage: str, formula: str, numbers: Sequence[Decimal], head: int | None) -> Step:
    lines = (Line(str(i), n, (Term(n),), i) for i, n in enumerate(numbers))
    return Step(stage, "same", formula, tuple(lines), head)
