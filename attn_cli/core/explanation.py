"""Explanation: the whole arithmetic of one output row, as one would write it on paper.

A step is a list of lines, a line is one result with the terms that give it, and every number is a
decimal as it is written: its digits are all there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from attn_cli.core.decimals import Places, text, total
from attn_cli.core.findings import Finding
from attn_cli.core.inputs import Labels
from attn_cli.core.results import InputSummary
from attn_cli.core.settings import Settings
from attn_cli.core.trace import StageShape

MOST = 12  # terms, keys or features that are all written; of more, the largest few
FEW = 8
NOWHERE = Places(0, 0)  # of a line whose numbers nobody shortens or compares
SINK, OTHERS = "sink", "others"  # labels of what is no key: the sink, the keys not written

# How a line's result follows from its terms a, b. Every product and every result is rounded to the
# last digit that it shows, and to nothing else.
Operation = Literal[
    "given",  # it has no terms: it was read, or the engine made it in the way of the other lines
    "same",  # a
    "dot",  # Σ product + rest + added, each product a · b
    "sum",  # Σ a + rest
    "subtract",  # a − b
    "multiply",  # a · b
    "divide",  # a ÷ b
    "sqrt",  # √a
    "softcap",  # b · tanh(a ÷ b)
    "max",  # the largest a
    "exp",  # eᵃ
    "angle",  # a · b^(−2·index/d_k): position a, base b
    "cos",
    "sin",
    "hide",  # it has no lines: these keys take no part
]


@dataclass(frozen=True, slots=True)
class Term:
    """One term of a line; `at` is its index along what is summed, `name` what it is."""

    a: Decimal
    b: Decimal | None = None
    product: Decimal | None = None
    at: int | None = None
    name: str = ""

    @property
    def size(self) -> Decimal:
        """What it adds, without sign; NaN counts as the largest, since it spreads."""
        number = self.product or Decimal(0)
        return Decimal("Infinity") if number.is_nan() else abs(number)

    def to_dict(self) -> dict[str, Any]:
        numbers = {"a": self.a, "b": self.b, "product": self.product}
        fields: dict[str, Any] = {} if self.at is None else {"at": self.at}
        fields |= {"name": self.name} if self.name else {}
        return fields | {name: json_text(n) for name, n in numbers.items() if n is not None}


@dataclass(frozen=True, slots=True)
class Rest:
    """The terms that are not written: how many, and what they add; None where they add nothing."""

    count: int
    value: Decimal | None

    def to_dict(self) -> dict[str, Any]:
        value = {} if self.value is None else {"sum": json_text(self.value)}
        return {"terms": self.count, **value}


@dataclass(frozen=True, slots=True)
class Line:
    """One result and the terms that give it; no terms where it is given.

    `index` counts along the result's own axis (a key, a feature, a pair); `label` is what stands
    there. `added` is a bias of a projection. `places` says how products are written, `ends` how the
    result is.
    """

    label: str
    result: Decimal
    terms: tuple[Term, ...] = ()
    index: int | None = None
    rest: Rest | None = None
    added: Decimal | None = None
    places: Places = NOWHERE
    ends: Places = NOWHERE

    def shortened(self, most: int) -> Line:
        """The line with its `most` largest terms in their order, the others in its rest."""
        if len(self.terms) <= most:
            return self
        by_size = sorted(range(len(self.terms)), key=lambda place: -self.terms[place].size)
        kept = sorted(by_size[:most])
        left = [self.terms[place] for place in by_size[most:]]
        known = Rest(0, Decimal(0)) if self.rest is None else self.rest
        rest = Rest(known.count + len(left), self._sum(left, known))
        return replace(self, terms=tuple(self.terms[place] for place in kept), rest=rest)

    def _sum(self, left: Sequence[Term], known: Rest) -> Decimal:
        """What these terms add, to the last place of the line's products however large it is."""
        products = (term.product for term in left if term.product is not None)
        return self.places.whole(total([*products, known.value or Decimal(0)]))

    def to_dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"label": self.label, "index": self.index}
        fields["terms"] = [term.to_dict() for term in self.terms]
        fields["rest"] = None if self.rest is None else self.rest.to_dict()
        if self.added is not None:
            fields["added"] = json_text(self.added)
        return fields | {"result": json_text(self.result)}


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the arithmetic: `head` None where it is that of all heads.

    `along` is the axis that the terms run along; `names` are those of a and b. `hidden` are the
    keys that a mask hides; `key` is the one whose k or v this is.
    """

    stage: str
    operation: Operation
    formula: str
    lines: tuple[Line, ...] = ()
    head: int | None = None
    along: str = ""
    names: tuple[str, str] = ("", "")
    hidden: tuple[int, ...] = ()
    key: int | None = None

    @property
    def results(self) -> tuple[Decimal, ...]:
        return tuple(line.result for line in self.lines)

    def shortened(self, terms: int | None) -> tuple[Line, ...]:
        """The lines with their largest terms, as many as are written.

        Terms along the keys stay: those of the keys that are not written were never made.
        """
        if self.operation != "dot" or self.along != "feature":
            return self.lines
        return tuple(line.shortened(limited(len(line.terms), terms)) for line in self.lines)

    def to_dict(self, terms: int | None) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "stage": self.stage,
            "head": self.head,
            "operation": self.operation,
            "formula": self.formula,
        }
        if self.along:
            fields |= {"along": self.along}
        if self.key is not None:
            fields |= {"key": self.key}
        if self.operation == "dot":
            fields |= {"a": self.names[0], "b": self.names[1]}
        if self.operation == "hide":
            fields["hidden"] = list(self.hidden)
        return fields | {"lines": [line.to_dict() for line in self.shortened(terms)]}


@dataclass(frozen=True, slots=True)
class Digits:
    """How many digits follow the point: in what is carried, and in the results.

    As few as make weights and output, which is the context where nothing projects it, right to the
    last digit that they show.
    """

    carried: int
    weights: int
    context: int
    output: int

    def to_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """Everything `attn explain` knows: one query's row, step by step, and what was read.

    `terms` is how many terms, keys and features are written (None: all of few, the largest of
    many). `agrees` says whether weights and output are those of the float64 engine.
    """

    input: InputSummary
    settings: Settings
    shapes: tuple[StageShape, ...]
    item: int
    query: int
    heads: tuple[int, ...]
    steps: tuple[Step, ...]
    digits: Digits
    agrees: bool
    terms: int | None
    findings: tuple[Finding, ...]
    fine: tuple[str, ...]
    labels: Labels | None
    layer: int = 0
    engine: str = "numpy"
    dtype: str = "float64"
    device: str = "cpu"

    @property
    def masked(self) -> bool:
        return any(step.stage == "masked" for step in self.shapes)

    def to_dict(self) -> dict[str, Any]:
        """The object of `--json`, schema attn.explain/1."""
        tokens = None
        if self.labels is not None:
            key, query = self.labels.key[self.item], self.labels.query[self.item]
            tokens = {"query": query[self.query], "keys": list(key)}
        settings = self.settings.to_dict()
        settings |= {"engine": self.engine, "dtype": self.dtype, "device": self.device}
        return {
            "schema": "attn.explain/1",
            "input": self.input.to_dict(),
            "settings": settings,
            "layer": self.layer,
            "item": self.item,
            "heads": list(self.heads),
            "query": self.query,
            "tokens": tokens,
            "digits": self.digits.to_dict(),
            "agrees": self.agrees,
            "steps": [step.to_dict(self.terms) for step in self.steps],
            "findings": [finding.to_dict() for finding in self.findings],
        }


def limited(count: int, wanted: int | None) -> int:
    """How many of `count` things are written: `wanted`, or all of few and the largest of many.

    >>> limited(12, None), limited(64, None), limited(64, 20)
    (12, 8, 20)
    """
    if wanted is not None:
        return min(count, wanted)
    return count if count <= MOST else FEW


def json_text(number: Decimal) -> str | None:
    """A number as it is written, in a string so that no digit is lost; NaN is null."""
    return None if number.is_nan() else text(number)
