"""Difference: what is gathered of one stage of two sides, part by part, and its result."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.compare import StageDiff, Verdict, apart, compare
from attn_cli.core.results_diff import SIDES, OfSide, Side, StageResult
from attn_cli.core.rounding import precision
from attn_cli.core.signature import Signature

Array = NDArray[Any]
CLASSES = ("nan", "+inf", "-inf")


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What replaces the measured budget: atol + rtol · |what is held against|; None: measured."""

    atol: float | None = None
    rtol: float | None = None

    @property
    def given(self) -> bool:
        return self.atol is not None or self.rtol is not None

    @property
    def words(self) -> str:
        if not self.given:
            return "measured"
        return f"{self.atol or 0:g} + {self.rtol or 0:g} · |right|"

    def allowed(self, measured: Array | float, right: Array) -> Array | float:
        """The budget around `right`."""
        if not self.given:
            return measured
        sizes = np.abs(np.where(np.isfinite(right), right, 0))
        return (self.atol or 0.0) + (self.rtol or 0.0) * sizes


@dataclass(slots=True)
class SideTally:
    """One side of a stage: its distance from the oracle and its own faults, over the parts."""

    dtype: str
    shape: tuple[int, ...] = ()
    error: float = math.nan
    budget: float = math.nan
    beyond: bool = False
    fault: bool | None = None
    derived: bool = False

    def hold(self, diff: StageDiff, budget: float) -> None:
        """One part held against the oracle, with the largest budget in it."""
        error = math.inf if diff.nonfinite else diff.max_abs
        self.error = error if math.isnan(self.error) else max(self.error, error)
        self.budget = budget if math.isnan(self.budget) else max(self.budget, budget)
        self.beyond |= diff.verdict == "different"

    def blame(self, fault: bool) -> None:
        """Whether one part is not what the side's own stage before it makes."""
        self.fault = fault or bool(self.fault)

    @property
    def result(self) -> OfSide:
        return OfSide(
            self.shape, self.dtype, self.error, self.beyond, self.budget, self.fault, self.derived
        )


@dataclass(frozen=True, slots=True)
class PartDiff:
    """One part of a stage, its place, and both values at its worst element."""

    at: tuple[int, int]
    diff: StageDiff
    values: tuple[float, float] | None

    @property
    def badness(self) -> tuple[bool, bool, float]:
        """What makes a part the one to look at."""
        return self.diff.nonfinite > 0, self.diff.verdict == "different", self.diff.max_abs


@dataclass(slots=True)
class Tally:
    """One stage of both sides: `axes` name its axes, `offset` is the position of query 0."""

    stage: str
    axes: tuple[str, ...]
    left: SideTally
    right: SideTally
    offset: int | None = 0
    parts: list[PartDiff] = field(default_factory=list)
    elements: int = 0
    classes: dict[str, Counter[str]] = field(
        default_factory=lambda: {side: Counter() for side in SIDES}
    )
    signature: Signature = field(init=False)

    def __post_init__(self) -> None:
        self.signature = Signature(self.stage, self.offset)

    @property
    def dtype(self) -> str:
        """The coarser precision of the two, in which ulps are counted."""
        return coarser(self.left.dtype, self.right.dtype)

    def side(self, side: Side) -> SideTally:
        return self.left if side == "left" else self.right

    def compare(
        self, at: tuple[int, int], left: Array, right: Array, allowed: Array | float
    ) -> None:
        """One part of both sides: item at[0], from head at[1] on."""
        diff = compare(left, right, budget=allowed, dtype=self.dtype)
        same_shape = left.shape == right.shape
        values = (float(left[diff.where]), float(right[diff.where])) if diff.where else None
        self.parts.append(PartDiff(at, diff, values))
        self.elements += left.size
        if not same_shape:
            return
        if diff.nonfinite:
            self._count_classes(left, right)
        self.signature.see(at, left, right)
        if diff.verdict == "different":
            self.signature.differs(at, left, right, np.asarray(allowed))
        elif left.ndim == 4:
            self.signature.agrees(at, left.shape[1])

    def _count_classes(self, left: Array, right: Array) -> None:
        other = apart(left, right)[1]
        for side, array in (("left", left[other]), ("right", right[other])):
            counts = (np.isnan(array), np.isposinf(array), np.isneginf(array))
            for name, found in zip(CLASSES, counts, strict=True):
                if found.any():
                    self.classes[side][name] += int(found.sum())

    @property
    def verdict(self) -> Verdict:
        verdicts = {part.diff.verdict for part in self.parts}
        for verdict in ("different", "rounding"):
            if verdict in verdicts:
                return verdict
        return "identical"

    def result(self) -> StageResult:
        """Everything gathered; the worst part says where."""
        part = max(self.parts, key=lambda part: part.badness)
        diffs, worst, verdict = [part.diff for part in self.parts], part.diff, self.verdict
        return StageResult(
            stage=self.stage,
            verdict=verdict,
            left=self.left.result,
            right=self.right.result,
            elements=self.elements,
            max_abs=max(diff.max_abs for diff in diffs),
            max_rel=max(diff.max_rel for diff in diffs),
            ulps=worst.ulps,
            where=self._where(part.at, worst),
            values=part.values,
            beyond=sum(diff.beyond for diff in diffs),
            budget=worst.budget,
            nonfinite={side: dict(counts) for side, counts in self.classes.items() if counts},
            signature=self.signature.facts() if verdict == "different" else (),
        )

    def _where(self, at: tuple[int, int], worst: StageDiff) -> dict[str, int]:
        """The worst element by axis, counted from the first item and head of the whole stage."""
        start = {"batch": at[0], "head": at[1]}
        return {
            axis: index + start.get(axis, 0)
            for axis, index in zip(self.axes, worst.where, strict=False)
        }


def coarser(a: str, b: str) -> str:
    """The precision of the two whose numbers are farther apart."""
    return a if precision(a).bits <= precision(b).bits else b
