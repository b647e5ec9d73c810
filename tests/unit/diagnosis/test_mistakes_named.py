"""Hand-written code with one mistake each: it is named, and right code is never accused."""

from __future__ import annotations

from pathlib import Path

import pytest

from attn_cli.diagnosis.adapting import adapt
from attn_cli.diagnosis.host.session import LocalSession
from attn_cli.diagnosis.mistakes import MISTAKES
from attn_cli.diagnosis.plan_json import said_of
from attn_cli.diagnosis.verdict import Judgement, judge
from tests.unit.diagnosis.wrong_cases import CASES, Case

IMPLS = Path(__file__).parent / "impls"
FRAGILE = ("softmax_overflow", "late_mask_underflow", "wrong_on_large_scores")


def judged(entry: str, case: Case) -> Judgement:
    said = said_of({"call": case.call, "intent": case.intent})
    with adapt(f"{IMPLS}/{entry}", said, session=LocalSession()) as code:
        return judge(code)


def codes(judgement: Judgement) -> list[set[str]]:
    """The explanations: each a set of codes."""
    first = {named.mistake.code for named in judgement.mistakes}
    others = [{named.mistake.code for named in group} for group in judgement.alternatives]
    return [first, *others]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.entry.partition(":")[2])
def test_the_mistake_is_named(case: Case) -> None:
    judgement = judged(case.entry, case)
    assert judgement.verdict == ("fragile" if case.code in FRAGILE else "wrong")
    found = codes(judgement)
    assert {case.code} in found, found
    assert len(found) <= 2, found


@pytest.mark.parametrize(
    "case",
    list({case.right + str(case.call) + str(case.intent): case for case in CASES}.values()),
    ids=lambda case: case.right.partition(":")[2],
)
def test_right_code_is_not_accused(case: Case) -> None:
    judgement = judged(case.right, case)
    assert not judgement.mistakes, codes(judgement)
    assert judgement.verdict == "correct", [one.probe.name for one in judgement.unexplained]


def test_every_mistake_has_a_case() -> None:
    assert {case.code for case in CASES} == set(MISTAKES)
