"""Signature: the facts of a difference, as they are measured. What they mean is said elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.compare import apart
from attn_cli.core.results_diff import Fact
from attn_cli.core.slope import SIGMAS, Slope

Array = NDArray[Any]
Bools = NDArray[np.bool_]

SCORES = ("scores", "scaled", "softcapped", "biased", "masked")
SQUARE = (*SCORES, "weights")  # stages with a query and a key axis
BINS = (1, 4, 16, 64, 256, 1024, 4096, 16384)  # distances below each share a bin
SKETCH = 129  # quantiles by which the values of a head are known again
MOST_HEADS = 256  # that are known again
NAMED = 8  # heads that are named


class Signature:
    """Gathers what is to be said of one stage, part by part, (1, H, L, ·).

    `offset` is the position of query 0.
    """

    def __init__(self, stage: str, offset: int | None) -> None:
        self.stage, self.offset = stage, offset
        self.slope = Slope()
        self.heads: dict[tuple[int, int], bool] = {}  # (item, head) → whether it differs
        self.ends: dict[str, float] = {}
        self.bins = np.zeros(len(BINS) + 1)
        self.sides = np.zeros(3)  # keys before the query, at it, after it
        self.sums: dict[str, tuple[float, float, int]] = {}  # least, greatest, not finite
        self.patterns = Patterns()
        self.values = Values()

    def see(self, at: tuple[int, int], left: Array, right: Array) -> None:
        """What is gathered of every part, different or not."""
        if left.ndim == 4:
            self.slope.add(left, right)

    def differs(self, at: tuple[int, int], left: Array, right: Array, allowed: Array) -> None:
        """What is gathered of a part in which some element is beyond what is `allowed`."""
        if left.ndim != 4:
            return
        gap, other, _ = apart(left, right)
        beyond = (gap > allowed) | other
        for h, off in enumerate(beyond[0].any((1, 2))):
            self.heads[at[0], at[1] + h] = bool(off)
        queries = np.where(other, np.inf, gap).max((0, 1, 3))
        for name, value in (("query 0", queries[0]), ("the last query", queries[-1])):
            self.ends[name] = max(self.ends.get(name, 0.0), float(value))
        if self.stage in SQUARE:
            self._by_distance(np.where(other, np.inf, gap).max((0, 1)))
        if self.stage == "weights":
            self._row_sums(left, right)
        if self.stage in ("masked", "weights"):
            self.patterns.add(_hidden(self.stage, left), _hidden(self.stage, right))
        heads = [h for h in range(left.shape[1]) if beyond[0, h].any()]
        self.values.add(at, left[0, heads], right[0, heads], np.asarray(allowed), heads)

    def agrees(self, at: tuple[int, int], heads: int) -> None:
        """A part in which nothing is beyond the budget."""
        self.heads.update({(at[0], at[1] + h): False for h in range(heads)})

    def _by_distance(self, gap: Array) -> None:
        queries, keys = gap.shape
        offset = self.offset or 0
        distance = (np.arange(queries) + offset)[:, None] - np.arange(keys)
        where = np.searchsorted(np.array(BINS), np.abs(distance), side="right")
        for i in range(len(self.bins)):
            self.bins[i] = max(self.bins[i], gap.max(initial=0.0, where=where == i))
        for i, side in enumerate((distance > 0, distance == 0, distance < 0)):
            self.sides[i] = max(self.sides[i], gap.max(initial=0.0, where=side))

    def _row_sums(self, left: Array, right: Array) -> None:
        for name, array in (("left", left), ("right", right)):
            sums = array.astype(np.float64).sum(-1)
            there = np.isfinite(sums)
            low, high, lost = self.sums.get(name, (np.inf, -np.inf, 0))
            self.sums[name] = (
                float(sums.min(initial=low, where=there)),
                float(sums.max(initial=high, where=there)),
                lost + int((~there).sum()),
            )

    def facts(self) -> tuple[Fact, ...]:
        """What was measured, in words and numbers."""
        return tuple(self._facts())

    def _facts(self) -> Iterator[Fact]:
        excess, error = self.slope.excess
        if np.isfinite(excess) and (self.stage in SCORES or abs(excess) > SIGMAS * error):
            yield Fact("ratio", self.slope.words, {"slope": 1 + excess, "error": error})
        yield from self._which_heads()
        if self.ends:
            words = ", ".join(f"{value:.3g} at {name}" for name, value in self.ends.items())
            yield Fact("queries", f"largest difference {words}", {"largest": _plain(self.ends)})
        if self.stage in SQUARE and self.bins.any() and self.offset is not None:
            yield from self._distances()
        if self.sums:
            words = ", ".join(f"{side} {_span(*ends)}" for side, ends in self.sums.items())
            numbers = {side: _ends(*ends) for side, ends in self.sums.items()}
            yield Fact("row-sums", words, numbers)
        yield from self.patterns.facts("zeros" if self.stage == "weights" else "−∞")
        yield from self.values.facts()

    def _which_heads(self) -> Iterator[Fact]:
        off = [at for at, differs in self.heads.items() if differs]
        if not off:
            return
        several = len({item for item, _ in self.heads}) > 1
        named = [f"batch {b} head {h}" if several else f"head {h}" for b, h in off[:NAMED]]
        more = f" and {len(off) - NAMED} more" if len(off) > NAMED else ""
        total = len(self.heads)
        if len(off) == total:
            words = "all differ" if total > 1 else "the only one differs"
        else:
            words = f"{len(off)} of {total} differ: {', '.join(named)}{more}"
        yield Fact("heads", words, {"differ": [list(at) for at in off], "heads": total})

    def _distances(self) -> Iterator[Fact]:
        before, same, after = (float(value) for value in self.sides)
        words = f"{before:.3g} before the query, {same:.3g} at it, {after:.3g} after it"
        words = f"largest difference {words}"
        yield Fact("keys", words, _plain({"before": before, "same": same, "after": after}))
        low, binned = 0, {}
        for high, value in zip((*BINS, None), self.bins, strict=True):
            if value:
                last = "" if high is None else high - 1
                binned[str(low) if last == low else f"{low}–{last}"] = float(value)
            low = high or low
        far = ", ".join(f"{value:.3g} at {name}" for name, value in binned.items())
        yield Fact("distance", f"largest difference {far}", {"largest": _plain(binned)})


class Patterns:
    """Whether two patterns of hidden keys are equal, one in the other, opposite or moved."""

    def __init__(self) -> None:
        self.left = self.right = self.left_only = self.right_only = 0
        self.opposite = True
        self.moved = {"one key on": True, "one key back": True, "one query on": True}

    def add(self, left: Bools, right: Bools) -> None:
        self.left += int(left.sum())
        self.right += int(right.sum())
        self.left_only += int((left & ~right).sum())
        self.right_only += int((right & ~left).sum())
        self.opposite &= bool((left == ~right).all())
        pairs = {
            "one key on": (left[..., 1:], right[..., :-1]),
            "one key back": (left[..., :-1], right[..., 1:]),
            "one query on": (left[..., 1:, :], right[..., :-1, :]),
        }
        for name, (a, b) in pairs.items():
            self.moved[name] &= bool(a.size) and bool((a == b).all())

    def facts(self, what: str) -> Iterator[Fact]:
        if not (self.left or self.right):
            return
        numbers = {
            "left": self.left,
            "right": self.right,
            "left_only": self.left_only,
            "right_only": self.right_only,
        }
        relation, words = self._relation()
        yield Fact("pattern", f"{what}: {words}", {"relation": relation, **numbers})

    def _relation(self) -> tuple[str, str]:
        if not (self.left_only or self.right_only):
            return "equal", f"in the same {self.left:,} places"
        if self.opposite:
            return "complement", "left has them exactly where right has none"
        moved = [name for name, holds in self.moved.items() if holds]
        if moved:
            return "shifted", f"left's places are right's moved {moved[0]}"
        if not self.right_only:
            return "superset", f"left has right's {self.right:,} and {self.left_only:,} more"
        if not self.left_only:
            return "subset", f"right has left's {self.left:,} and {self.right_only:,} more"
        words = f"{self.left_only:,} on the left alone, {self.right_only:,} on the right alone"
        return "other", words


class Values:
    """Whether heads that differ hold the same values in another order, or another head's."""

    def __init__(self) -> None:
        self.same: dict[tuple[int, int], bool] = {}
        self.sketches: dict[tuple[int, int], tuple[Array, Array, float]] = {}

    def add(
        self, at: tuple[int, int], left: Array, right: Array, allowed: Array, heads: list[int]
    ) -> None:
        """`left` and `right` (n, L, ·) are the heads `heads` of a part that differ."""
        last = allowed.shape[-2:] if allowed.ndim == 4 else (1, 1)
        several = allowed.ndim == 4 and allowed.shape[1] > 1
        wide = (
            allowed if several else np.broadcast_to(allowed, (1, max(heads, default=0) + 1, *last))
        )
        for i, h in enumerate(heads):
            budget = float(np.max(wide[0, h]))
            a, b = np.sort(left[i], axis=None), np.sort(right[i], axis=None)
            name = at[0], at[1] + h
            self.same[name] = _near(a, b, budget)
            if len(self.sketches) < MOST_HEADS:
                places = np.linspace(0, len(a) - 1, SKETCH).astype(int)
                self.sketches[name] = a[places], b[places], budget

    def facts(self) -> Iterator[Fact]:
        if self.same and all(self.same.values()):
            words = "both sides hold the same values, in other places"
            yield Fact("values", words, {"same_in_head": True})
            return
        swapped = {
            at: other
            for at, (a, _, budget) in self.sketches.items()
            for other, (_, b, other_budget) in self.sketches.items()
            if at != other and len(a) == len(b) and _near(a, b, max(budget, other_budget))
        }
        if swapped:
            pairs = [f"left's {_at(at)} holds right's {_at(o)}" for at, o in swapped.items()]
            more = f" and {len(pairs) - NAMED} more" if len(pairs) > NAMED else ""
            numbers = [[list(at), list(other)] for at, other in swapped.items()]
            words = ", ".join(pairs[:NAMED]) + more
            yield Fact("values", words, {"same_in_head": False, "swapped": numbers})


def _near(a: Array, b: Array, budget: float) -> bool:
    gap, other, _ = apart(a, b)
    return not other.any() and bool((gap <= budget).all())


def _at(place: tuple[int, int]) -> str:
    return f"head {place[1]}" if place[0] == 0 else f"batch {place[0]} head {place[1]}"


def _hidden(stage: str, array: Array) -> Bools:
    hidden: Bools = array == 0 if stage == "weights" else np.isneginf(array)
    return hidden


def _span(low: float, high: float, lost: int) -> str:
    """Two ends, or one where they print alike, and how many rows have no sum."""
    first, last = f"{low:.6g}", f"{high:.6g}"
    words = [] if low > high else [first if first == last else f"{first} to {last}"]
    return " and ".join([*words, *([f"not finite in {lost:,} rows"] if lost else [])])


def _ends(low: float, high: float, lost: int) -> dict[str, Any]:
    none = low > high
    return {"min": None if none else low, "max": None if none else high, "not_finite": lost}


def _number(value: float) -> float | str:
    return float(value) if np.isfinite(value) else str(value)


def _plain(numbers: dict[str, Any]) -> dict[str, Any]:
    """inf as text: JSON has no word for it."""
    return {
        name: _number(value) if isinstance(value, float) else value
        for name, value in numbers.items()
    }
