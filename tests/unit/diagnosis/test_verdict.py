"""Verdicts: two mistakes at once, conventions, what is open, and code that nothing explains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attn_cli.diagnosis.adapting import adapt_object
from attn_cli.diagnosis.plan_json import said_of
from attn_cli.diagnosis.verdict import Judgement, judge
from tests.unit.diagnosis.impls import verdicts
from tests.unit.diagnosis.test_mistakes_named import codes
from tests.unit.diagnosis.wrong_cases import LAYER, LAYER_INTENT, MASKED, PLAIN

HERE = Path(__file__).parent


def judged(code: Any, call: Any, **intent: Any) -> Judgement:
    said = said_of({"call": call, "intent": intent})
    with adapt_object(code, said, name=code.__name__) as adapted:
        return judge(adapted)


@pytest.mark.parametrize(
    "code, call, intent, pair",
    [
        (
            verdicts.no_scale_and_mask_late,
            MASKED,
            {},
            {"scale_missing", "mask_after_softmax"},
        ),
        (
            verdicts.leaks_and_doubly_scaled,
            PLAIN,
            {"causal": True},
            {"causal_leaks_next", "scale_by_dk"},
        ),
        (
            verdicts.TwoMistakes,
            LAYER,
            LAYER_INTENT,
            {"heads_merged_without_transpose", "mask_no_effect"},
        ),
    ],
)
def test_two_mistakes_are_both_named(code: Any, call: Any, intent: Any, pair: set[str]) -> None:
    judgement = judged(code, call, **intent)
    assert judgement.verdict == "wrong"
    assert pair in codes(judgement)


def test_alignment_at_the_upper_left_is_a_convention_until_somebody_says_otherwise() -> None:
    call = {**PLAIN, "lengths_may_differ": True}
    judgement = judged(verdicts.upper_left, call, causal=True)
    assert judgement.verdict == "correct"
    assert judgement.upper_left
    said = judged(verdicts.upper_left, call, causal=True, align="lower-right")
    assert said.verdict == "wrong"
    assert codes(said) == [{"causal_top_left_with_cache"}]
    assert judged(verdicts.upper_left, call, causal=True, align="upper-left").verdict == "correct"


def test_a_mistake_beside_an_open_alignment_is_named_alone() -> None:
    call = {**PLAIN, "lengths_may_differ": True}
    judgement = judged(verdicts.upper_left_scaled_twice, call, causal=True)
    assert judgement.verdict == "wrong"
    assert {frozenset(found) for found in codes(judgement)} == {
        frozenset({"scale_applied_twice"}),
        frozenset({"scale_by_dk"}),
    }


def test_a_missing_scale_by_design_is_a_convention_until_somebody_says_otherwise() -> None:
    judgement = judged(verdicts.T5Like, PLAIN)
    assert (judgement.verdict, judgement.by_design) == ("correct", "scale_missing")
    assert judged(verdicts.T5Like, PLAIN, scale=1.0).verdict == "correct"
    assert judged(verdicts.T5Like, PLAIN, scale=0.25).verdict != "correct"


def test_an_epsilon_in_the_sum_is_a_convention() -> None:
    judgement = judged(verdicts.with_epsilon, MASKED)
    assert (judgement.verdict, judgement.epsilon) == ("correct", 1e-6)
    assert judgement.excused


def test_what_nothing_explains_is_undecided() -> None:
    judgement = judged(verdicts.of_its_own_kind, MASKED)
    assert judgement.verdict == "undecided"
    assert not judgement.mistakes
    assert judgement.unexplained


def test_an_empty_row_that_is_uniform_or_nan_changes_no_verdict() -> None:
    for code in (verdicts.uniform_when_empty, verdicts.nan_when_empty):
        judgement = judged(code, MASKED)
        assert judgement.verdict == "correct", code.__name__


def test_a_second_call_that_fails_is_state() -> None:
    judgement = judged(verdicts.Grows, LAYER, **LAYER_INTENT)
    assert "stateful_between_calls" in codes(judgement)[0]
    assert judgement.verdict == "wrong"
