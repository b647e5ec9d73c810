"""Right code in ways that are easily misread: it is not accused, and what is odd is said."""

from __future__ import annotations

from typing import Any

import pytest

from attn_cli.diagnosis.adapting import adapt_object
from attn_cli.diagnosis.plan_json import Said, plan_of, said_of, to_json
from attn_cli.diagnosis.saying import say
from attn_cli.errors import InputError
from attn_cli.workflows.check.impl import check_impl
from tests.unit.diagnosis.impls import unusual
from tests.unit.diagnosis.wrong_cases import PLAIN


@pytest.mark.parametrize(
    "code, said, words",
    [
        (unusual.Tied, Said(), ""),
        (unusual.Configured, say(init="dim=24, num_heads=3"), "attention_mask is added"),
        (unusual.HeadByHead, Said(), "of each head in turn"),
        (unusual.must_have_its_mask, Said(), "True in mask means hidden"),
        (unusual.takes_float32_only, Said(), ""),
        (unusual.has_settings, Said(), "capped at ±4"),
        (unusual.softmax_one, Said(), "1 stands in the denominator"),
        (unusual.of_lists, said_of({"call": {**PLAIN, "lib": "list", "layouts": ["LD"]},
                                    "intent": {"causal": True}}), ""),
    ],
)  # fmt: skip
def test_it_is_right(code: Any, said: Said, words: str) -> None:
    result = check_impl(code, said, trace=False)
    assert (result.verdict, result.mistakes) == ("correct", ())
    assert words in " ".join(result.conventions)
    saved = plan_of(result.plan["call"], result.plan["intent"])  # what is saved can be read
    assert to_json(saved) == result.plan


def test_the_plan_that_was_used_gives_the_same_verdict() -> None:
    first = check_impl(unusual.must_have_its_mask, trace=False)
    again = check_impl(unusual.must_have_its_mask, said_of(first.plan), trace=False)
    assert first.plan["call"]["mask"]["required"]
    assert (again.verdict, again.plan) == (first.verdict, first.plan)
    assert {probe.outcome for probe in again.probes} == {"agrees"}


def test_a_mask_that_must_be_given_hides_nothing_where_nothing_is_asked_of_it() -> None:
    with adapt_object(unusual.must_have_its_mask, Said(), name="f") as adapted:
        assert adapted.plan.call.mask is not None
        assert adapted.plan.call.mask.required
        assert to_json(adapted.plan)["call"]["mask"]["kind"] == "drop_pair"


def test_other_heads_than_the_default_are_passed_on() -> None:
    with adapt_object(unusual.has_settings, say(heads=4), name="f") as adapted:
        assert adapted.plan.call.constants == {"num_heads": 4}
        assert adapted.plan.intent.heads == 4


def test_one_unknown_matrix_is_taken_for_a_packed_one() -> None:
    class Odd(unusual.HeadByHead):
        def __init__(self) -> None:
            super().__init__()  # type: ignore[no-untyped-call]
            self.funny = self.query_key_value
            del self.query_key_value

    with pytest.raises(InputError) as caught:
        adapt_object(Odd, Said(), name="Odd")
    assert "--map" in caught.value.hint
    assert "funny=qkv" in caught.value.hint
