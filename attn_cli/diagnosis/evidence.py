"""Evidence: mistakes that no formula commits, each found by an experiment of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.diagnosis.allowance import EVIDENCE
from attn_cli.diagnosis.asking import Sizes, draw_question
from attn_cli.diagnosis.interviewing import Interview, answer, with_mask_dtype
from attn_cli.diagnosis.mistakes import MISTAKES
from attn_cli.diagnosis.mistakes.base import Mistake
from attn_cli.diagnosis.probes.probe import Probe, Seen, gaps, see
from attn_cli.diagnosis.question import Question
from attn_cli.diagnosis.subject import Adapted
from attn_cli.errors import AttnError

Array = NDArray[Any]

DRAWS = 200  # train-mode runs whose mean is held against eval mode
FRESH = (11, 13)  # lengths that no probe has
_DROPOUT = "dropout in train mode"  # as what is left out
SURE = 8.0  # standard errors that the mean may be off by chance: never


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """A mistake and what shows it. `explains` are the probes whose answers it accounts for;
    `instead` the answers without it, where they could be had."""

    mistake: Mistake
    facts: tuple[str, ...]
    explains: tuple[Seen, ...] = ()
    instead: tuple[Seen, ...] = ()


def gather(adapted: Adapted, told: Interview) -> list[Evidence]:
    """All experiments, in an order in which the earlier ones explain the later ones."""
    found = [*_mutation(told), *_randomness(adapted, told)]
    random = any(one.mistake.code == "dropout_in_eval" for one in found)
    if not random:
        state = list(_state(adapted, told, mutates=bool(found))) or list(_stale(adapted, told))
        found += [*state, *_dropout(adapted, told)]
    return [*found, *_failures(adapted, told)]


def _mutation(told: Interview) -> Iterator[Evidence]:
    changed = [one for one in told.seen if one.observed.mutated]
    if changed:
        names = ", ".join(dict.fromkeys(name for one in changed for name in one.observed.mutated))
        facts = [f"after a call {names} hold other numbers"]
        if any(_repeats_differ(one) for one in changed):
            facts.append("a second call with the same arguments gives another result")
        yield Evidence(MISTAKES["mutates_inputs"], tuple(facts))


def _repeats_differ(one: Seen) -> bool:
    first = one.observed.output
    if first is None:
        return False
    return any(bool((gaps(first, again) > one.budget).any()) for again in one.observed.repeats)


def _randomness(adapted: Adapted, told: Interview) -> Iterator[Evidence]:
    """In eval mode a second call gives another result, and another seed another one.

    The seed alone says nothing: numbers that the code draws when it is built depend on it too.
    """
    for one in _answered(told)[:3]:
        if one.observed.mutated or not _repeats_differ(one):
            continue
        if adapted.allowance.spent(EVIDENCE, "whether it is random in eval mode"):
            return
        other = adapted.attend(one.question, dtype=told.dtype, seed=1).output
        if other is None or one.observed.output is None:
            continue
        gap = gaps(one.observed.output, other)
        if (gap > one.budget).any():
            fact = f"{one.probe.name}: from call to call the output moves by {gap.max():.2g}"
            yield Evidence(MISTAKES["dropout_in_eval"], (fact,))
            return


def _answered(told: Interview) -> list[Seen]:
    return [one for one in told.seen if not one.failed and one.probe.dtype is None]


def _state(adapted: Adapted, told: Interview, *, mutates: bool) -> Iterator[Evidence]:
    """The same question after another one of the same shapes, and with the same arguments again."""
    facts = [] if mutates else [f"{name}: a second call fails" for name in told.once]
    for one in _answered(told):
        if one.probe.boundary is not None or not _worth_asking(one):
            continue
        if not mutates and _repeats_differ(one):
            facts.append(f"{one.probe.name}: a second call gives another result")
            continue
        for other in _others(told, one.question):
            if adapted.allowance.spent(EVIDENCE, "whether it keeps something between calls"):
                break
            again = adapted.attend(one.question, dtype=told.dtype, after=[other])
            if again.output is None or one.observed.output is None:
                continue
            gap = gaps(one.observed.output, again.output)
            if (gap > one.budget).any():
                facts.append(
                    f"{one.probe.name}: after another question the output moves by {gap.max():.2g}"
                )
                break
    if facts:
        yield Evidence(MISTAKES["stateful_between_calls"], tuple(facts[:3]))


def _stale(adapted: Adapted, told: Interview) -> Iterator[Evidence]:
    """Lengths never asked before: the first question of each is answered rightly, the next is not.

    Numbers that a file keeps for all of its objects are there before the first probe.
    """
    wrong = [one for one in told.seen if not one.agrees and one.probe.dtype is None]
    one = min(wrong, key=lambda one: (one.failed, one.probe.boundary is not None), default=None)
    if one is None or one.failed or one.question.steps:
        return
    facts = []
    if adapted.allowance.spent(EVIDENCE, "whether it keeps something between calls"):
        return
    for length in FRESH:
        try:
            first, then = (_like(told, one.question, length, seed) for seed in (21, 22))
        except AttnError:
            return
        asked = (
            see(Probe(q), adapted.attend(q, dtype=told.dtype), told.setting) for q in (first, then)
        )
        if not next(asked).agrees or next(asked).agrees:
            return
        facts.append(f"{length} tokens: right the first time, wrong with other numbers")
    yield Evidence(MISTAKES["stateful_between_calls"], tuple(facts), tuple(wrong))


def _like(told: Interview, question: Question, length: int, seed: int) -> Question:
    B, H, _, _ = question.shape
    return draw_question(
        told.setting.plan,
        told.setting.parameters,
        Sizes(B, length, None, H, question.inputs.q.shape[-1]),
        name="afresh",
        seed=seed,
        layout=question.layout,
        masked=question.keep is not None or question.bias is not None,
    )


def _worth_asking(one: Seen) -> bool:
    name = one.probe.name
    return name.startswith(("plain", "mask")) and "equal" not in name


def _others(told: Interview, question: Question) -> Iterator[Question]:
    """Other numbers, and another mask, of the same shapes; and of fewer tokens."""
    B, H, L, S = question.shape
    for queries, keys in ((L, S), (max(1, L - 2), max(1, S - 2))):
        sizes = Sizes(B, queries, keys, H, question.inputs.q.shape[-1])
        try:
            yield draw_question(
                told.setting.plan,
                told.setting.parameters,
                sizes,
                name="another",
                seed=17,
                layout=question.layout,
                masked=question.keep is not None or question.bias is not None,
            )
        except AttnError:
            continue


def _dropout(adapted: Adapted, told: Interview) -> Iterator[Evidence]:
    """In train mode: rows that still sum to 1, or a mean that is not what eval mode gives."""
    if told.setting.plan.call.kind == "function":
        return
    one = next((one for one in _answered(told) if one.probe.boundary is None), None)
    if one is None or one.observed.output is None:
        return
    if adapted.allowance.spent(EVIDENCE, _DROPOUT):
        return
    train = adapted.attend(one.question, dtype=told.dtype, train=True, repeat=DRAWS)
    if train.trouble is not None and train.trouble.kind == "time":
        adapted.allowance.leave_out(_DROPOUT)
    if train.output is None or not train.repeats:
        return
    draws = np.stack([train.output, *train.repeats])
    if not (gaps(draws, draws[:1]) > one.budget).any():
        return  # nothing is random in train mode
    facts = list(_sums(adapted, told, draws, one))
    spread = draws.std(0) / np.sqrt(len(draws))
    off = np.abs(draws.mean(0) - one.observed.output)
    sure = off[spread > 0] / spread[spread > 0]
    if sure.max(initial=0.0) > SURE:
        facts.append(
            f"the mean of {len(draws)} outputs in train mode is {off.max():.2g} off eval mode, "
            f"{sure.max():.0f} standard errors"
        )
    if facts:
        yield Evidence(MISTAKES["dropout_before_softmax"], tuple(facts))


def _sums(adapted: Adapted, told: Interview, plain: Array, one: Seen) -> Iterator[str]:
    """With identical tokens only the sum of a row counts, which dropped weights make random.

    Numbers that are 0 are left out: a dropout behind the projection makes those.
    """
    if not _spread(plain, one):
        return
    for same in _answered(told):
        if same.probe.boundary != "identical tokens":
            continue
        train = adapted.attend(same.question, dtype=told.dtype, train=True, repeat=20)
        if train.output is not None and not _spread(np.stack([train.output, *train.repeats]), same):
            yield "in train mode the output varies, but with identical tokens it does not"


def _spread(draws: Array, one: Seen) -> bool:
    """Whether some element takes several values besides 0."""
    low = np.where(draws == 0, np.inf, draws).min(0)
    high = np.where(draws == 0, -np.inf, draws).max(0)
    return bool((high - low > 2 * one.budget).any())


def _failures(adapted: Adapted, told: Interview) -> Iterator[Evidence]:
    failed = [one for one in told.seen if one.failed]
    if not failed:
        return
    fine = [one for one in told.seen if not one.failed]
    masked = [one for one in failed if one.question.keep is not None]
    spec = told.setting.mask
    all_masked = all(one.failed for one in told.seen if one.question.keep is not None)
    if masked and spec is not None and spec.dtype == "bool" and all_masked:
        yield from _bool_mask(adapted, told, masked)
        failed = [one for one in failed if one not in masked]
    uneven = [one for one in failed if one.question.shape[2] != one.question.shape[3]]
    even = [one for one in fine if one.question.shape[2] == one.question.shape[3]]
    if uneven and even and len(uneven) == len(failed):
        facts = [f"{one.probe.name}: {answer(one.observed)}" for one in uneven[:2]]
        yield Evidence(MISTAKES["crash_on_length_mismatch"], tuple(facts), tuple(uneven))


def _bool_mask(adapted: Adapted, told: Interview, masked: list[Seen]) -> Iterator[Evidence]:
    for dtype in ("float", "int"):
        if adapted.allowance.spent(EVIDENCE, f"whether it takes a mask of {dtype}"):
            return
        other = with_mask_dtype(adapted, dtype)
        assert other is not None
        again = [
            see(one.probe, other.attend(one.question, dtype=told.dtype, repeat=2), told.setting)
            for one in masked
        ]
        if any(not one.failed for one in again):
            first = f"{masked[0].probe.name}: {answer(masked[0].observed)}"
            facts = (first, f"with a mask of {dtype} it answers")
            instead = tuple(
                replace(one, probe=replace(one.probe, needed=False))
                for one in again
                if not one.failed
            )
            yield Evidence(MISTAKES["crash_on_bool_mask"], facts, tuple(masked), instead)
            return
