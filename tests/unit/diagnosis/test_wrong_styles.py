"""Hand-written code with one mistake, of which only the constructor's arguments are said."""

from __future__ import annotations

from pathlib import Path

import pytest

from attn_cli.diagnosis.adapting import adapt
from attn_cli.diagnosis.host.session import LocalSession
from attn_cli.diagnosis.plan_json import Said
from attn_cli.diagnosis.saying import say
from attn_cli.diagnosis.verdict import Judgement, judge

FILE = Path(__file__).parent / "impls" / "wrong_styles.py"
TWO = say(init="24, 3")
CASES: dict[str, tuple[Said, tuple[str, ...]]] = {
    "Compares": (TWO, ("scale_after_softmax",)),
    "next_too": (Said(), ("causal_leaks_next",)),
    "Grouped": (say(init="32, 4, 2"), ("causal_top_left_with_cache",)),
    "padded": (say(mask_means="keep"), ("causal_missing",)),
    "added": (say(mask_means="keep"), ("mask_added_as_is",)),
    "OnOtherAxes": (TWO, ("mask_broadcast_wrong_axis",)),
    "OnQueries": (TWO, ("pad_mask_on_queries", "mask_no_effect")),
    "shows_scores": (say(mask_means="keep"), ("returns_scores_as_weights",)),
    "one_softmax": (Said(), ("softmax_over_everything",)),
    "other_rows": (Said(), ("softmax_wrong_normaliser",)),
    "all_axes": (Said(), ("key_transposed_all_axes",)),
    "logs": (say(mask_means="additive"), ("log_softmax_weights",)),
    "remembers": (Said(), ("stateful_between_calls",)),
    "capped": (say(mask_means="keep"), ("softcap_after_mask",)),
    "fused_product": (Said(), ("scale_missing",)),
}


def judged(entry: str, said: Said) -> Judgement:
    with adapt(f"{FILE}:{entry}", said, session=LocalSession()) as code:
        return judge(code)


@pytest.mark.parametrize("entry", CASES)
def test_the_mistake_is_named_with_hardly_anything_said(entry: str) -> None:
    said, expected = CASES[entry]
    judgement = judged(entry, said)
    assert judgement.verdict == "wrong"
    found = [named.mistake.code for named in judgement.mistakes]
    found += [named.mistake.code for group in judgement.alternatives for named in group]
    assert tuple(found) == expected


def test_code_that_looks_back_is_meant_to() -> None:
    judgement = judged("looks_back", Said())
    assert judgement.verdict == "correct"
    assert judgement.interview.setting.plan.intent.causal


def test_code_that_sees_its_neighbours_is_not_taken_for_causal() -> None:
    assert not judged("beside", Said()).interview.setting.plan.intent.causal
