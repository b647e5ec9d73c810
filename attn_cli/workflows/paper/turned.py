"""Turned: a query turned by its position, pair by pair: angle, cosine, sine, products."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from attn_cli.core.decimals import ROUGH, cosine, decimal, product, sine, written
from attn_cli.core.explanation import Line, Step, Term, limited
from attn_cli.core.positions import Rotation
from attn_cli.workflows.paper.sheet import Decimals, Factor, Sheet, completed, dots


def turned(sheet: Sheet, rotation: Rotation, q: Decimals) -> list[Step]:
    """Angle, cosine and sine of every pair, and q turned by them; the first pairs worked out."""
    pairs, head = range(limited(len(q) // 2, sheet.terms)), sheet.head
    position = Decimal(sheet.row.inputs.query_positions[sheet.row.query])
    base = decimal(rotation.base)
    angles = written(
        [product(position, _frequency(base, pair, len(q))) for pair in pairs], sheet.carried
    )
    cos = written(list(map(cosine, angles)), sheet.carried)
    sin = written(list(map(sine, angles)), sheet.carried)
    formula = f"position · base^(−2·pair/{len(q)})"
    made = _lines([Term(position, base) for _ in pairs], angles)
    return [
        Step("angle", "angle", formula, made, head),
        Step("cos", "cos", "cos(angle)", _lines(map(Term, angles), cos), head),
        Step("sin", "sin", "sin(angle)", _lines(map(Term, angles), sin), head),
        _rotated(sheet, rotation, q, list(zip(cos, sin, strict=True))),
    ]


def _frequency(base: Decimal, pair: int, width: int) -> Decimal:
    return ROUGH.power(base, ROUGH.divide(Decimal(-2 * pair), Decimal(width)))


def _lines(terms: Iterator[Term] | list[Term], results: Decimals) -> tuple[Line, ...]:
    return tuple(
        Line(str(pair), result, (term,), pair)
        for pair, (term, result) in enumerate(zip(terms, results, strict=True))
    )


def _rotated(
    sheet: Sheet, rotation: Rotation, q: Decimals, turns: list[tuple[Decimal, Decimal]]
) -> Step:
    """first · cos − second · sin and first · sin + second · cos of every pair."""
    lines: list[Line] = []
    for pair, (cos, sin) in enumerate(turns):
        at = _features(rotation, pair, len(q))
        a = [q[feature] for feature in at]
        factors = [Factor(str(at[0]), at[0], (cos, -sin)), Factor(str(at[1]), at[1], (sin, cos))]
        lines += dots(a, factors, digits=sheet.carried, at=at)
    made = sheet.given(sheet.row["q_rotated"][sheet.head].tolist())
    formula = "first · cos − second · sin, first · sin + second · cos"
    names = ("q", "cos, sin")
    return Step("q_rotated", "dot", formula, completed(lines, made), sheet.head, "feature", names)


def _features(rotation: Rotation, pair: int, width: int) -> tuple[int, int]:
    """The two features of a pair."""
    if rotation.pairing == "half":
        return pair, pair + width // 2
    return 2 * pair, 2 * pair + 1
