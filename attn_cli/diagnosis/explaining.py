"""Explaining: which mistakes, committed by the formula, give what the code gave on every probe."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from attn_cli.diagnosis.allowance import EXPLAINING, Allowance
from attn_cli.diagnosis.formula.run import Outcome, budgets, run
from attn_cli.diagnosis.formula.work import Arithmetic, Setting, Step
from attn_cli.diagnosis.mistakes import MISTAKES
from attn_cli.diagnosis.mistakes.base import Mistake, Variant
from attn_cli.diagnosis.probes.probe import Array, Seen, by_row, gaps

PAIR_SECONDS = 4.0  # that the search among pairs may take
AS_FAR = 0.1  # of a vague mistake's error: code that is nearer to right does not commit it
NEAR = 0.02  # of the largest value: farther apart than this, no budget is measured


@dataclass(frozen=True, slots=True)
class Explanation:
    """One or two mistakes that reproduce every answer. `exact` counts the elements compared."""

    mistakes: tuple[Mistake, ...]
    notes: tuple[str, ...] = ()
    exact: int = 0
    probes: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A mistake and one of its variants."""

    mistake: Mistake
    variant: Variant


def explain(
    setting: Setting,
    seen: Sequence[Seen],
    *,
    pairs: bool = False,
    allowance: Allowance | None = None,
) -> list[Explanation]:
    """The mistakes, or `pairs` of them, that explain all of `seen`; the best of each code.

    Those that leave fewer elements to chance come first. Empty where nothing explains it. None is
    tried once `allowance` is used up, which then says so.
    """
    ordered = sorted(seen, key=_telling)
    # How a mistake meets numbers that overflow is an accident of how it is written.
    ordinary = [one for one in ordered if one.probe.boundary != "large scores"]
    candidates = list(_candidates(setting))
    if pairs:
        return _Tester(setting, ordinary, judged_only=True, allowance=allowance).pairs(candidates)
    for probes in (ordered, ordinary):
        for judged_only in (False, True):
            if found := _Tester(setting, probes, judged_only, allowance).singles(candidates):
                return found
    return []


def reproduces(setting: Setting, seen: Sequence[Seen], steps: Mapping[str, Step]) -> bool:
    """Whether the formula with these steps gives every answer, and the right one does not."""
    return _Tester(setting, sorted(seen, key=_telling), judged_only=True).explains(steps) > 0


def _candidates(setting: Setting) -> Iterator[Candidate]:
    for code in MISTAKES:
        mistake = MISTAKES[code]
        if mistake.variants is not None:
            for variant in mistake.variants(setting):
                yield Candidate(mistake, variant)


def _telling(seen: Seen) -> tuple[bool, bool, int]:
    """Answers that are wrong come first, small arrays before large ones."""
    return seen.agrees, seen.failed, seen.right.size


@dataclass(slots=True, eq=False)
class _Tester:
    """Holds the formula with replaced steps against every answer, the most telling one first."""

    setting: Setting
    seen: Sequence[Seen]
    judged_only: bool
    allowance: Allowance | None = None
    started: float = field(default_factory=time.process_time)  # a busy machine finds as much
    vague: bool = False  # the mistake at hand is vague
    finite: bool = False  # NaN and inf alone explain nothing: too many pairs end in them

    def singles(self, candidates: Sequence[Candidate]) -> list[Explanation]:
        best: dict[str, Explanation] = {}
        for candidate in candidates:
            if self._time_is_up("further mistakes"):
                break
            self.vague = candidate.mistake.alone
            count = self.explains(candidate.variant.steps)
            code = candidate.mistake.code
            if count and (code not in best or count > best[code].exact):
                note = candidate.variant.note
                best[code] = Explanation((candidate.mistake,), (note,), count, len(self.seen))
        most = max((found.exact for found in best.values()), default=0)
        equal = [found for found in best.values() if found.exact == most]
        return sorted(equal, key=self._unmarked)

    def _time_is_up(self, what: str) -> bool:
        return self.allowance is not None and self.allowance.spent(EXPLAINING, what)

    def _unmarked(self, found: Explanation) -> bool:
        """Whether the source does not speak for it."""
        marks = found.mistakes[0].marks
        return not (marks and re.search(marks, self.setting.source))

    def pairs(self, candidates: Sequence[Candidate]) -> list[Explanation]:
        """The first codes of two that explain everything, within PAIR_SECONDS."""
        best: dict[tuple[str, str], Explanation] = {}
        self.vague, self.finite = False, True
        useful = [c for c in candidates if not (c.mistake.boundary or c.mistake.alone)]
        for one, other in combinations(useful, 2):
            if time.process_time() - self.started > PAIR_SECONDS:
                break
            if self._time_is_up("pairs of mistakes"):
                break
            if one.mistake is other.mistake or set(one.variant.steps) & set(other.variant.steps):
                continue
            count = self.explains({**one.variant.steps, **other.variant.steps})
            key = (one.mistake.code, other.mistake.code)
            if count and (key not in best or count > best[key].exact):
                notes = (one.variant.note, other.variant.note)
                best[key] = Explanation((one.mistake, other.mistake), notes, count, len(self.seen))
        most = max((found.exact for found in best.values()), default=0)
        return [found for found in best.values() if found.exact == most][:4]

    def explains(self, steps: Mapping[str, Step]) -> int:
        """How many elements the steps explain; 0 where one is not, or where nothing was wrong."""
        total, telling = 0, False
        for seen in self.seen:
            count, differs = self._same(seen, steps)
            if count < 0:
                return 0
            total, telling = total + count, telling or differs
        return total if telling else 0

    def _same(self, seen: Seen, steps: Mapping[str, Step]) -> tuple[int, bool]:
        """The elements explained, −1 where one is not, and whether the right formula differs."""
        observed = seen.observed
        dtype = "float32" if observed.dtype == "float32" else "float64"
        outcome = run(seen.question, self.setting, steps, Arithmetic(dtype))
        if seen.failed or outcome.failed:
            return (0, True) if seen.failed and outcome.failed else (-1, False)
        with np.errstate(all="ignore"):  # a mistake may well overflow
            return self._compared(seen, steps, outcome)

    def _compared(
        self, seen: Seen, steps: Mapping[str, Step], outcome: Outcome
    ) -> tuple[int, bool]:
        assert outcome.output is not None
        assert outcome.loose is not None
        assert seen.observed.output is not None
        rows = ~outcome.loose
        if self.judged_only:
            rows = rows & seen.question.judged
        else:
            rows = rows & ~seen.question.empty
        chosen = by_row(rows, outcome.output)
        parts = [(seen.observed.output, outcome.output, chosen, "output")]
        differs = bool(seen.beyond.any())
        if seen.observed.weights is not None and outcome.weights is not None:
            predicted = outcome.weights
            if seen.observed.weights_kind == "mean":
                predicted = predicted.mean(1, keepdims=True)
                rows = np.asarray(rows.all(1, keepdims=True))
            where = np.broadcast_to(rows[..., None], predicted.shape)
            parts.append((seen.observed.weights, predicted, where, "weights"))
            differs = differs or bool(seen.weights_beyond.any())
        if not all(_near(came, said, where) for came, said, where, _ in parts):
            return -1, False
        if self.vague and differs and not _as_far(seen, outcome.output):
            return -1, False
        allowed = budgets(seen.question, self.setting, steps, outcome)
        for came, said, where, name in parts:
            room = allowed[name]
            if name == "weights" and seen.observed.weights_kind == "mean":
                room = room.max(1, keepdims=True)
            if (gaps(came, said) > room)[where].any():
                return -1, False
        if self.finite:
            parts = [
                (came, said, where & np.isfinite(said), name) for came, said, where, name in parts
            ]
        return sum(int(where.sum()) for _, _, where, _ in parts), differs


def _as_far(seen: Seen, said: Array) -> bool:
    """Whether the code is about as far from right as the mistake is: else a vague one fits all."""
    rows = by_row(seen.question.judged, said)
    theirs = gaps(said, seen.right)[rows].max(initial=0.0)
    return bool(seen.worst >= AS_FAR * theirs)


def _near(came: Array, said: Array, where: Array) -> bool:
    """Whether two arrays are close enough that measuring the budget is worth while."""
    if not where.any():
        return True
    size = np.abs(np.where(np.isfinite(said), said, 0)).max(initial=0.0)
    return bool(gaps(came, said)[where].max() <= NEAR * size + 1e-30)
