"""Explaining a dump: which mistakes, committed by the formula, make its stages of those before."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.budget import FACTOR, RUNS
from attn_cli.core.onestep import HIDDEN
from attn_cli.core.rounding import precision
from attn_cli.core.step_budget import floor
from attn_cli.diagnosis.dumped.case import Case
from attn_cli.diagnosis.dumped.running import Predicted, Program, predict
from attn_cli.diagnosis.formula.work import Steps
from attn_cli.diagnosis.mistakes import MISTAKES
from attn_cli.diagnosis.mistakes.base import Mistake
from attn_cli.diagnosis.probes.probe import gaps

Array = NDArray[Any]

SECONDS = 20.0  # that all of the search may take
PAIR_SECONDS = 2.0  # of them, for two mistakes at once
AS_FAR = 0.1  # of a vague mistake's error: stages that are nearer to right do not have it
NEAR = 0.02  # of the largest value: farther apart than this, no budget is measured
COARSE_NEAR = 0.15  # the same where numbers have few bits
BY_ROW = ("weights", "context")  # stages whose rows say nothing where nothing is seen
MERGED = ("merged", "output")


@dataclass(frozen=True, slots=True, eq=False)
class Dumped:
    """The stages of a dump, and which do not follow from those before them.

    `held` are (B, H, L, ·) or (B, L, ·), scores without the scale; `order` names them in the order
    of the formula, `wrong` those that the right formula does not make of what is before them.
    `right` maps these to what it makes. `dtype` is the precision that they were computed in, and
    `units` the last digits of those that are written short.
    """

    held: Mapping[str, Array]
    order: tuple[str, ...]
    wrong: tuple[str, ...]
    right: Mapping[str, Array]
    dtype: str
    units: Mapping[str, float] = field(default_factory=dict)

    def before(self, stage: str) -> dict[str, Array]:
        """The stages before one."""
        names = self.order[: self.order.index(stage)]
        return {name: self.held[name] for name in names}


@dataclass(frozen=True, slots=True)
class DumpExplanation:
    """One or two mistakes that make `stages` of those before them. `elements` were compared."""

    mistakes: tuple[Mistake, ...]
    notes: tuple[str, ...]
    stages: tuple[str, ...]
    elements: int


@dataclass(frozen=True, slots=True)
class Explained:
    """What was found: each group explains some stages, its members equally well.

    `unexplained` are wrong stages that no group covers; `tried` counts the mistakes, and `whole`
    is False where time ran out before the last.
    """

    groups: tuple[tuple[DumpExplanation, ...], ...]
    unexplained: tuple[str, ...]
    tried: int
    whole: bool


def explain_dump(dumped: Dumped, cases: Sequence[Case]) -> Explained:
    """Mistakes that explain all wrong stages at once, else each wrong stage by itself.

    By itself a stage is made of the dump's own stages before it, right or not. Where a single
    mistake does not do, two are tried.
    """
    search = _Search(dumped, cases)
    together = search.singles(dumped.wrong)
    groups = [together] if together else []
    if not together and len(dumped.wrong) > 1:
        groups = [found for stage in dumped.wrong if (found := search.singles((stage,)))]
    groups += [found for stage in _left(dumped, groups) if (found := search.pairs(stage))]
    missing = _left(dumped, groups)
    return Explained(tuple(map(tuple, groups)), missing, len(search.tried), search.whole)


def _left(dumped: Dumped, groups: Sequence[Sequence[DumpExplanation]]) -> tuple[str, ...]:
    """The wrong stages that no group explains."""
    covered = {name for found in groups for one in found for name in one.stages}
    return tuple(stage for stage in dumped.wrong if stage not in covered)


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    """One way to commit a mistake, in one reading of the mask."""

    case: Case
    mistake: Mistake
    note: str
    steps: Steps


@dataclass(slots=True, eq=False)
class _Search:
    """Holds the formula with replaced steps against the stages of a dump."""

    dumped: Dumped
    cases: Sequence[Case]
    tried: set[str] = field(default_factory=set)
    plain: dict[tuple[int, int], Predicted | None] = field(default_factory=dict)
    whole: bool = True
    started: float = field(default_factory=time.monotonic)

    def singles(self, stages: tuple[str, ...]) -> list[DumpExplanation]:
        """The mistakes that explain these stages, one a code, those that say most about them."""
        best: dict[str, DumpExplanation] = {}
        for candidate in self._candidates():
            if time.monotonic() - self.started > SECONDS:
                self.whole = False
                break
            mistake = candidate.mistake
            self.tried.add(mistake.code)
            count = self._explains(candidate.case, candidate.steps, stages, vague=mistake.alone)
            if count and (mistake.code not in best or count > best[mistake.code].elements):
                best[mistake.code] = DumpExplanation((mistake,), (candidate.note,), stages, count)
        return _fullest(best.values())

    def pairs(self, stage: str) -> list[DumpExplanation]:
        """Two mistakes that together make one stage, within PAIR_SECONDS."""
        best: dict[tuple[str, str], DumpExplanation] = {}
        started = time.monotonic()
        useful = [c for c in self._candidates() if self._moves(c, stage)]
        for one, other in combinations(useful, 2):
            if time.monotonic() - started > PAIR_SECONDS:
                self.whole = False
                break
            alike = one.mistake is other.mistake or one.case is not other.case
            if alike or set(one.steps) & set(other.steps):
                continue
            count = self._explains(one.case, {**one.steps, **other.steps}, (stage,))
            key = (one.mistake.code, other.mistake.code)
            if count and (key not in best or count > best[key].elements):
                both, notes = (one.mistake, other.mistake), (one.note, other.note)
                best[key] = DumpExplanation(both, notes, (stage,), count)
        return _fullest(best.values())[:4]

    def _moves(self, one: _Candidate, stage: str) -> bool:
        """Whether a mistake that may come in company changes the stage, and none before it."""
        if one.mistake.boundary or one.mistake.alone:
            return False
        given = self.dumped.before(stage)
        made = predict(one.case, one.steps, given)
        if made is None or stage not in made.stages or not self._keeps(one.case, made, given):
            return False
        right = self.dumped.right[stage]
        return not any(
            array.shape == right.shape and np.array_equal(array, right, equal_nan=True)
            for array in made.stages[stage][-1:]
        )

    def _candidates(self) -> Iterator[_Candidate]:
        for case in self.cases:
            for code in MISTAKES:
                mistake = MISTAKES[code]
                if mistake.variants is not None:
                    for variant in mistake.variants(case.setting):
                        yield _Candidate(case, mistake, variant.note, variant.steps)

    def _explains(
        self, case: Case, steps: Steps, stages: tuple[str, ...], *, vague: bool = False
    ) -> int:
        """How many elements of the stages the steps make, 0 where one is another."""
        given = self.dumped.before(stages[0])
        made = predict(case, steps, given)
        if made is None or not self._keeps(case, made, given):
            return 0
        # Behind a stage that is explained, all the others have to follow as well.
        first = self.dumped.order.index(stages[0])
        names = self.dumped.order[first:] if stages == self.dumped.wrong else stages
        matches = {name: self._match(name, made, names) for name in names if name in made.stages}
        if any(name not in matches for name in stages) or None in matches.values():
            return 0
        chosen = {name: match for name, match in matches.items() if match is not None}
        if vague and not self._as_far(stages[0], made, chosen[stages[0]]):
            return 0
        rooms = self._rooms(case, steps, given, made, chosen)
        total = 0
        for name, (which, rows) in chosen.items():
            array = made.stages[name][which]
            if (_gaps(name, self.dumped.held[name], array) > rooms[name])[rows].any():
                return 0
            if rooms[name].min() > self._near(name, array):
                return 0  # rounding alone decides what comes out: nothing is predicted
            total += int(rows.sum())
        return total if self._tells(stages, rooms, chosen) else 0

    def _keeps(self, case: Case, made: Predicted, given: Mapping[str, Array]) -> bool:
        """Whether the right stages before are made as the right formula makes them.

        They take their places all the same; but a mistake in what makes them is not in this dump.
        """
        key = (self.cases.index(case), len(given))
        if key not in self.plain:
            self.plain[key] = predict(case, {}, given)
        plain = self.plain[key]
        assert plain is not None
        for name in given:
            if name not in self.dumped.wrong and name in made.stages:
                first, second = (_hiding(one.stages[name][-1]) for one in (made, plain))
                if not np.array_equal(first, second, equal_nan=True):
                    return False
        return True

    def _match(
        self, name: str, made: Predicted, names: Sequence[str]
    ) -> tuple[int, NDArray[np.bool_]] | None:
        """Which of the arrays that may be shown is near the dump's, and where they count.

        Weights as they are before they are changed count where the context shows that they are.
        """
        held = self.dumped.held[name]
        for which, array in enumerate(made.stages[name]):
            early = name == "weights" and which == 0 and "context" not in names
            if array.shape != held.shape or early:
                continue
            rows = _rows(name, made, held)
            if (_gaps(name, held, array)[rows] <= self._near(name, array)).all():
                return which, rows
        return None

    def _near(self, name: str, array: Array) -> float:
        """How far a stage may be from what is predicted to be looked at closer."""
        shown = _shown(name, array)
        size = float(np.abs(np.where(np.isfinite(shown), shown, 0)).max(initial=0.0))
        few = precision(self.dumped.dtype).bits < precision("float32").bits
        unit = self.dumped.units.get(name, 0.0)
        return (COARSE_NEAR if few else NEAR) * size + 2 * unit + 1e-30

    def _as_far(self, name: str, made: Predicted, match: tuple[int, NDArray[np.bool_]]) -> bool:
        """Whether the stage is about as far from right as the mistake takes it."""
        which, rows = match
        right = self.dumped.right[name]
        theirs = gaps(made.stages[name][which], right)[rows].max(initial=0.0)
        off = gaps(self.dumped.held[name], right)[rows].max(initial=0.0)
        return bool(off >= AS_FAR * theirs)

    def _rooms(
        self,
        case: Case,
        steps: Steps,
        given: Mapping[str, Array],
        made: Predicted,
        chosen: Mapping[str, tuple[int, NDArray[np.bool_]]],
    ) -> dict[str, Array]:
        """How far rounding takes these very steps in the dump's precision, over all heads."""
        exact = {n: _shown(n, made.stages[n][which]) for n, (which, _) in chosen.items()}
        errors = dict.fromkeys(exact, 0.0)
        for seed in range(RUNS):
            rng = np.random.default_rng(seed)
            program = Program(self.dumped.dtype, rng, self.dumped.units)
            plain = predict(case, steps, given, program)
            if plain is None:
                continue
            for name, (which, _) in chosen.items():
                came = _shown(name, plain.stages[name][which])
                both = np.isfinite(came) & np.isfinite(exact[name])
                gap = float(np.where(both, gaps(came, exact[name]), 0).max(initial=0.0))
                errors[name] = max(errors[name], gap)
        least = floor(exact, self.dumped.dtype)
        sides = 2.0 if self.dumped.dtype == "float64" else 1.0
        units = self.dumped.units
        return {n: sides * FACTOR * e + least[n] + units.get(n, 0.0) for n, e in errors.items()}

    def _tells(
        self,
        stages: tuple[str, ...],
        rooms: Mapping[str, Array],
        chosen: Mapping[str, tuple[int, NDArray[np.bool_]]],
    ) -> bool:
        """Whether the mistake's room is too small for the right stage: else it explains nothing."""
        for name in stages:
            gap = _gaps(name, self.dumped.held[name], self.dumped.right[name])
            if (gap > rooms[name])[chosen[name][1]].any():
                return True
        return False


def _rows(name: str, made: Predicted, held: Array) -> NDArray[np.bool_]:
    """Where an element counts: in rows that see something."""
    rows = np.ones(held.shape, dtype=bool)
    if name in BY_ROW:
        rows &= ~made.loose[..., None]
    elif name in MERGED:
        rows &= ~np.asarray(made.loose.any(1))[..., None]
    return rows


def _gaps(name: str, a: Array, b: Array) -> Array:
    """How far two arrays are apart; masked scores that hide are alike."""
    return gaps(_shown(name, a), _shown(name, b))


def _shown(name: str, array: Array) -> Array:
    return _hiding(array) if name == "masked" else array


def _hiding(array: Array) -> Array:
    """Very negative numbers as −∞: they hide alike."""
    return np.where(array <= HIDDEN, -np.inf, array)


def _fullest(found: Sequence[DumpExplanation] | Any) -> list[DumpExplanation]:
    """Those that compare the most elements: they leave fewer to chance."""
    every = list(found)
    most = max((one.elements for one in every), default=0)
    return [one for one in every if one.elements == most]
