"""Frozen results of `attn check edges`: verdicts by kind and case, and one case in full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.findings import Finding
from attn_cli.core.results import json_array, json_number

Array = NDArray[Any]
Verdict = Literal["passed", "failed", "unsupported"]
VERDICTS: tuple[Verdict, ...] = ("passed", "failed", "unsupported")


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The worst element of a stage that is not as expected.

    `beyond` of `total` elements are wrong; `allowed` is how far right code may be off there.
    `words` say the rule that was broken, where it is one.
    """

    stage: str
    axes: tuple[str, ...]
    where: tuple[int, ...]
    expected: float
    got: float
    allowed: float
    beyond: int
    total: int
    words: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "stage": self.stage,
            "where": dict(zip(self.axes, self.where, strict=True)),
            "expected": json_number(self.expected),
            "got": json_number(self.got),
            "allowed": json_number(self.allowed),
            "beyond": self.beyond,
            "total": self.total,
            "rule": self.words,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """How a subject did on a case. `reason` where there is nothing to compare: it raised, refused,
    or gave another shape; `output` (B, H, L, d_v) is what it gave, None where it gave nothing."""

    verdict: Verdict
    reason: str
    mismatch: Mismatch | None = None
    output: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class EdgeOutcome:
    """One subject on one case; `message` is the reason or the mismatch in one line."""

    engine: str
    kind: str
    name: str
    dtype: str
    asks: str
    judgement: Judgement
    reproduce: str

    @property
    def verdict(self) -> Verdict:
        return self.judgement.verdict

    @property
    def message(self) -> str:
        found = self.judgement.mismatch
        return self.judgement.reason if found is None else told(found)

    def to_dict(self) -> dict[str, Any]:
        found = self.judgement.mismatch
        plain = ("engine", "kind", "name", "dtype", "asks", "verdict", "message", "reproduce")
        return {
            **{name: getattr(self, name) for name in plain},
            "mismatch": None if found is None else found.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class KindCount:
    """How one subject did on the cases of one kind."""

    engine: str
    kind: str
    passed: int
    failed: int
    unsupported: int

    @property
    def total(self) -> int:
        return self.passed + self.failed + self.unsupported

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class CaseArray:
    """One array of a case: its shape, and how it lies in memory where that is not in C order."""

    name: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    layout: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "axes": list(self.axes),
            "shape": list(self.shape),
            "layout": self.layout,
        }


@dataclass(frozen=True, slots=True, eq=False)
class CaseDetail:
    """One case in full: what goes in, what is right and where that comes from.

    `row` is the (batch, head, query) to look at: of the first mismatch, else the first. `picture`
    draws the mask of its item and head, one line a query; `expected` (B, H, L, d_v).
    """

    arrays: tuple[CaseArray, ...]
    settings: tuple[str, ...]
    mask: str
    picture: tuple[str, ...]
    right: str
    expected: Array
    row: tuple[int, int, int]

    def to_dict(self) -> dict[str, Any]:
        return {
            "arrays": [array.to_dict() for array in self.arrays],
            "settings": list(self.settings),
            "mask": self.mask,
            "picture": list(self.picture),
            "right": self.right,
            "expected": json_array(self.expected),
        }


@dataclass(frozen=True, slots=True, eq=False)
class EdgesResult:
    """Everything that `attn check edges` knows; `detail` where one case was asked for.

    `held` says what answered: engines by name, or somebody's code, whose name then stands for one.
    """

    engines: tuple[str, ...]
    kinds: tuple[str, ...]
    dtype: str | None
    seed: int
    outcomes: tuple[EdgeOutcome, ...]
    notes: tuple[Finding, ...] = ()
    detail: CaseDetail | None = None
    held: Literal["engine", "code"] = "engine"

    def count(self, engine: str, kind: str) -> KindCount:
        """How an engine did on a kind."""
        verdicts = [o.verdict for o in self.outcomes if (o.engine, o.kind) == (engine, kind)]
        return KindCount(engine, kind, *(verdicts.count(verdict) for verdict in VERDICTS))

    def number(self, verdict: Verdict) -> int:
        """How many outcomes have this verdict."""
        return sum(outcome.verdict == verdict for outcome in self.outcomes)

    @property
    def first_failures(self) -> tuple[EdgeOutcome, ...]:
        """The first failing case of each kind and engine."""
        first: dict[tuple[str, str], EdgeOutcome] = {}
        for outcome in self.outcomes:
            if outcome.verdict == "failed":
                first.setdefault((outcome.engine, outcome.kind), outcome)
        return tuple(first.values())

    def to_dict(self) -> dict[str, Any]:
        """The object of `--json`, schema attn.check.edges/1."""
        counts = [self.count(engine, kind) for engine in self.engines for kind in self.kinds]
        return {
            "schema": "attn.check.edges/1",
            "engines": list(self.engines),
            "dtype": self.dtype,
            "seed": self.seed,
            "passed": self.number("passed"),
            "failed": self.number("failed"),
            "unsupported": self.number("unsupported"),
            "kinds": [count.to_dict() for count in counts],
            "cases": [outcome.to_dict() for outcome in self.outcomes],
            "detail": None if self.detail is None else self._detail(self.detail),
            "notes": [note.to_dict() for note in self.notes],
        }

    def _detail(self, detail: CaseDetail) -> dict[str, Any]:
        """The one case, and the output that each engine gave, null where it gave none."""
        outputs = [(outcome.engine, outcome.judgement.output) for outcome in self.outcomes]
        given = [
            {"engine": engine, "output": None if output is None else json_array(output)}
            for engine, output in outputs
        ]
        return {**detail.to_dict(), "given": given}


def told(found: Mismatch) -> str:
    """A mismatch in one line: where, expected, got, how many, and the rule that was broken.

    >>> axes = ("batch", "head", "query", "d_v")
    >>> told(Mismatch("output", axes, (0, 1, 2, 0), 0.5, float("nan"), 0.0, 3, 40))
    'output at batch 0, head 1, query 2, d_v 0: expected 0.5, got NaN; 3 of 40 elements are wrong'
    """
    places = ", ".join(f"{axis} {i}" for axis, i in zip(found.axes, found.where, strict=True))
    expected, got = plain_pair(found.expected, found.got)
    words = f"{found.stage} at {places}: expected {expected}, got {got}"
    if found.allowed and np.isfinite(found.got) and np.isfinite(found.expected):
        off = abs(found.got - found.expected)
        words += f", off by {off:.2g} where {found.allowed:.2g} is rounding"
    words += f"; {found.beyond:,} of {found.total:,} elements are wrong"
    return f"{words} ({found.words})" if found.words else words


def plain_pair(a: float, b: float) -> tuple[str, str]:
    """Two numbers with as many digits as tell them apart: NaN, inf, −inf by name.

    >>> plain_pair(0.25, 0.2500001)
    ('0.25', '0.2500001')
    """
    for digits in (6, 8, 10, 12, 17):
        pair = _plain(a, digits), _plain(b, digits)
        if pair[0] != pair[1]:
            break
    return pair


def _plain(value: float, digits: int) -> str:
    if np.isnan(value):
        return "NaN"
    return f"{value:.{digits}g}".replace("-", "−")
