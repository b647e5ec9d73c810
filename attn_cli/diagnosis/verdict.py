"""The verdict on somebody's code: right, wrong and how, fragile, or undecided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from attn_cli.diagnosis.by_design import SOFTMAX_ONE, epsilon, meant, softmax_one
from attn_cli.diagnosis.evidence import Evidence, gather
from attn_cli.diagnosis.explaining import Explanation, explain
from attn_cli.diagnosis.formula.run import run
from attn_cli.diagnosis.interviewing import Interview, answer, interview
from attn_cli.diagnosis.mistakes import MISTAKES
from attn_cli.diagnosis.mistakes.base import Mistake
from attn_cli.diagnosis.mistakes.masking import top_left
from attn_cli.diagnosis.probes.probe import Seen, gaps, rows_of
from attn_cli.diagnosis.subject import Adapted

Verdict = Literal["correct", "wrong", "fragile", "undecided"]

ENOUGH = 2 / 3  # of the probes that must have been asked where all that were agree


@dataclass(frozen=True, slots=True)
class Named:
    """A mistake that was found: where it is committed in words, and what shows it."""

    mistake: Mistake
    note: str
    facts: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """What was found. `alternatives` are other explanations that fit equally; each may be a pair.

    `unexplained` are the probes that no mistake accounts for; `upper_left` says that the code lines
    unequal lengths up at the top left, which nobody had said, `by_design` what it does by its own
    words on purpose (of by_design.SENTENCES), `epsilon` what it adds to the sum of a row;
    `excused` are the probes that differ by such a convention.
    """

    verdict: Verdict
    interview: Interview
    mistakes: tuple[Named, ...] = ()
    alternatives: tuple[tuple[Named, ...], ...] = ()
    unexplained: tuple[Seen, ...] = ()
    upper_left: bool = False
    by_design: str | None = None
    epsilon: float | None = None
    excused: tuple[Seen, ...] = ()
    evidence: tuple[Evidence, ...] = ()


def judge(adapted: Adapted, *, seed: int = 0) -> Judgement:
    """Asks the code everything and says what it does."""
    told = interview(adapted, seed=seed)
    evidence = gather(adapted, told)
    named = [Named(one.mistake, "", one.facts) for one in evidence]
    stale = any(one.mistake.code == "stateful_between_calls" and one.explains for one in evidence)
    if stale or any(one.mistake.code == "dropout_in_eval" for one in evidence):
        return Judgement("wrong", told, tuple(named), evidence=tuple(evidence))
    seen, upper_left = _conventional(told, told.seen)
    added = epsilon(told.setting, seen)
    design = SOFTMAX_ONE if added is None and softmax_one(told.setting, seen) else None
    if added is not None or design is not None:
        seen = []
    excused = tuple(one for one in told.seen if one not in seen and not one.agrees)
    seen, found = _explained(adapted, told, seen, evidence)
    if not named and (on_purpose := meant(adapted, told.setting, found)) is not None:
        excused = tuple(one for one in told.seen if not one.agrees)
        fine: Verdict = "undecided" if too_few(told) else "correct"
        return Judgement(fine, told, upper_left=upper_left, by_design=on_purpose, excused=excused)
    wrong = [one for one in seen if not one.agrees]
    if found and any(one.failed for one in seen):  # the mistake accounts for the failures as well
        named = [one for one in named if not one.mistake.code.startswith("crash_")]
    first, alternatives = _named(found, seen)
    verdict = _verdict(seen, found, named)
    if verdict == "correct" and too_few(told):
        verdict = "undecided"
    if wrong and not found and verdict == "fragile":
        first = (_large(wrong),)
    return Judgement(
        verdict,
        told,
        (*named, *first),
        alternatives,
        unexplained=() if found else tuple(wrong),
        upper_left=upper_left,
        by_design=design,
        epsilon=added,
        excused=excused,
        evidence=tuple(evidence),
    )


def _explained(
    adapted: Adapted, told: Interview, seen: list[Seen], evidence: Sequence[Evidence]
) -> tuple[list[Seen], list[Explanation]]:
    """What explains the wrong answers, and the probes that it was held against.

    First all of them; then less those whose alignment nobody has said; then less the failures that
    are explained; pairs of mistakes last.
    """
    attempts = [seen]
    if _alignment_open(told):
        attempts.append([one for one in seen if not _uneven(one)])
    if any(one.explains for one in evidence):
        attempts += [_without_failures(probes, evidence) for probes in attempts]
    attempts = [probes for probes in attempts if not all(one.agrees for one in probes)]
    for probes in attempts:
        if found := explain(told.setting, probes, allowance=adapted.allowance):
            return probes, found
    least = _without_failures(seen, evidence)
    if attempts:
        last = attempts[-1]
        if found := explain(told.setting, last, pairs=True, allowance=adapted.allowance):
            return last, found
    return least, []


def _verdict(seen: Sequence[Seen], found: Sequence[Explanation], named: Sequence[Named]) -> Verdict:
    wrong = [one for one in seen if not one.agrees]
    if named:
        return "wrong"
    if not wrong:
        return "correct"
    if _large_only(wrong):
        return "fragile"
    return "wrong" if found else "undecided"


def too_few(told: Interview) -> bool:
    """Whether too few of the probes were asked for code to be called correct."""
    return told.asked < ENOUGH * told.planned


def _large_only(wrong: Sequence[Seen]) -> bool:
    """Whether rows that see keys go wrong where scores are large, and only there."""
    return all(one.probe.boundary == "large scores" and not one.failed for one in wrong)


def _large(wrong: Sequence[Seen]) -> Named:
    """What is said of code that goes wrong on large scores, and of which nothing more is known."""
    facts = (f"{wrong[0].probe.name}: {_how(wrong[0])}", "right on all other probes")
    return Named(MISTAKES["wrong_on_large_scores"], "", facts)


def _without_failures(seen: Sequence[Seen], evidence: Sequence[Evidence]) -> list[Seen]:
    """The probes less those that some evidence explains, plus their answers without it."""
    explained = [one for found in evidence for one in found.explains]
    kept = [one for one in seen if one not in explained]
    return [*kept, *(one for found in evidence for one in found.instead)]


def _conventional(told: Interview, seen: Sequence[Seen]) -> tuple[list[Seen], bool]:
    """The probes less those of unequal lengths, where all of them are aligned at the top left.

    Nobody has said how queries and keys line up: then it is a convention, and no mistake.
    """
    uneven = [one for one in seen if _uneven(one)]
    if not _alignment_open(told) or all(one.agrees for one in uneven):
        return list(seen), False
    for with_window in (False, True):
        if all(_gives(told, one, with_window) for one in uneven):
            return [one for one in seen if one not in uneven], True
    return list(seen), False


def _alignment_open(told: Interview) -> bool:
    """Whether the code is causal, and nobody has said how unequal lengths line up."""
    intent = told.setting.plan.intent
    return intent.causal and intent.align is None


def _uneven(one: Seen) -> bool:
    return one.question.shape[2] != one.question.shape[3] and not one.question.steps


def _gives(told: Interview, one: Seen, with_window: bool) -> bool:
    outcome = run(one.question, told.setting, {"own": top_left(with_window)})
    if one.observed.output is None or outcome.output is None or outcome.loose is None:
        return False
    apart = rows_of(gaps(one.observed.output, outcome.output) > one.budget, one.question)
    return not (apart & ~outcome.loose).any()


def _named(
    found: Sequence[Explanation], seen: Sequence[Seen]
) -> tuple[tuple[Named, ...], tuple[tuple[Named, ...], ...]]:
    """The first explanation, and the others."""
    if not found:
        return (), ()
    every = [_with_facts(one, seen) for one in found]
    return every[0], tuple(every[1:])


def _with_facts(found: Explanation, seen: Sequence[Seen]) -> tuple[Named, ...]:
    wrong = [one for one in seen if not one.agrees]
    first = min(wrong, key=lambda one: (one.failed, one.probe.boundary is not None))
    facts = (
        f"the formula with this mistake gives what the code gave on all {found.probes} probes",
        f"the right one does not on {len(wrong)}, such as {first.probe.name}: {_how(first)}",
    )
    return tuple(
        Named(mistake, note, facts)
        for mistake, note in zip(found.mistakes, found.notes, strict=True)
    )


def _how(one: Seen) -> str:
    """How an answer is wrong, in words."""
    if one.failed:
        return answer(one.observed)
    rows = int((one.beyond | one.weights_beyond).sum())
    apart = "NaN or inf" if one.worst == float("inf") else f"up to {one.worst:.2g} off"
    if not one.beyond.any():
        apart = "other weights"
    return f"{rows} of {int(one.question.judged.sum())} rows, {apart}"
