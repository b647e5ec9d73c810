"""Right code in ways that are easily misread: it is not accused, and what is odd is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attn_cli.diagnosis.adapting import adapt, adapt_object
from attn_cli.diagnosis.host.session import LocalSession
from attn_cli.diagnosis.plan_json import Said, plan_of, said_of, to_json
from attn_cli.diagnosis.saying import say
from attn_cli.diagnosis.verdict import judge
from attn_cli.errors import InputError
from attn_cli.workflows.check.impl import check_impl
from tests.unit.diagnosis.impls import unusual, verdicts, wrong_functions, wrong_modules
from tests.unit.diagnosis.wrong_cases import PLAIN

PACKED = '''
import math
import torch
from torch import nn

class Packed(nn.Module):
    """(B, T, C). SAID"""

    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        packed = self.qkv(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = packed.chunk(3, -1)
        weights = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))
'''


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


@pytest.mark.parametrize(
    "code, said",
    [
        (unusual.HeadByHead, Said()),
        (unusual.has_settings, Said()),
        (unusual.softmax_one, Said()),
        (verdicts.T5Like, Said()),
        (verdicts.upper_left, Said()),
        (wrong_functions.scale_applied_twice, say(mask_means="keep")),
        (wrong_functions.late_mask_underflow, say(mask_means="keep")),
        (wrong_modules.PackedPerHead, say(init="24, 3")),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_saved_plan_gives_the_same_verdict(code: Any, said: Said) -> None:
    first = check_impl(code, said, trace=False)
    again = check_impl(code, said_of(json.loads(json.dumps(first.plan))), trace=False)
    assert (again.verdict, again.plan) == (first.verdict, first.plan)
    assert [one.code for one in again.mistakes] == [one.code for one in first.mistakes]


@pytest.mark.parametrize(
    "said, excused",
    [
        ("", False),
        ("Queries, keys and values of each head in turn, as GPT-NeoX does.", True),
        ("Each head's q, k and v lie together.", True),
        ("Split into q, k, v; head_dim numbers per head.", False),
        ("As in Megatron, but the columns are [q | k | v].", False),
        ("All q, then all k, then all v, not as in Bloom.", False),
    ],
)
def test_how_a_packed_projection_lies_is_a_matter_of_its_own_words(
    said: str, excused: bool, tmp_path: Path
) -> None:
    (tmp_path / "packed.py").write_text(PACKED.replace("SAID", said), encoding="utf-8")
    with adapt(f"{tmp_path}/packed.py:Packed", session=LocalSession()) as code:
        judgement = judge(code)
    assert judgement.verdict == ("correct" if excused else "wrong")
    if not excused:
        assert judgement.mistakes[0].mistake.code == "qkv_interleaved_layout"


def test_a_plan_that_says_how_it_lies_is_held_to_it() -> None:
    plan = check_impl(unusual.HeadByHead, trace=False).plan
    weights = {**plan["intent"]["weights"], "type": "fused"}
    said = said_of({**plan, "intent": {**plan["intent"], "weights": weights}})
    result = check_impl(unusual.HeadByHead, said, trace=False)
    assert [one.code for one in result.mistakes] == ["qkv_interleaved_layout"]


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
