"""Conventions: ways in which code is no textbook attention, and right all the same."""

from __future__ import annotations

import math
from collections.abc import Iterator

from attn_cli.core.results_impl import Behaviour
from attn_cli.diagnosis.by_design import SENTENCES
from attn_cli.diagnosis.interviewing import Interview
from attn_cli.diagnosis.verdict import Judgement

_MASKS = {
    "hidden": "True in {arg} means hidden (nn.MultiheadAttention's way; SDPA: may attend)",
    "additive": "{arg} is added to the scores: 0 and a very negative number",
    "bias": "{arg} is a bias, added to the scaled scores",
}


def conventions(judgement: Judgement, lines: tuple[Behaviour, ...]) -> tuple[str, ...]:
    """Each in one sentence. Only what the plan says, or what the code was seen to do."""
    return (*_said(judgement.interview), *_seen(judgement, lines))


def _said(told: Interview) -> Iterator[str]:
    plan = told.setting.plan
    intent, call = plan.intent, plan.call
    width = intent.head_dim or _width(told)
    if intent.scale is not None and not math.isclose(intent.scale, 1 / math.sqrt(width)):
        yield f"the scale is {intent.scale:g} instead of 1/√{width}, as was said"
    if intent.weights is not None and intent.weights.type == "fused_by_head":
        yield SENTENCES["qkv_interleaved_layout"]
    if intent.sink is not None:
        yield "a sink's logit stands in the denominator: rows sum to less than 1"
    if intent.softcap is not None:
        yield f"scores are capped at ±{intent.softcap:g}"
    if call.mask is not None and (text := _MASKS.get(call.mask.means)) is not None:
        yield text.format(arg=call.mask.arg)
    if told.setting.projected and not told.setting.out_projected:
        yield "there is no output projection: the output is the heads side by side"
    if intent.align == "upper-left":
        yield "queries and keys of unequal lengths are aligned at the upper left, as was said"


def _seen(judgement: Judgement, lines: tuple[Behaviour, ...]) -> Iterator[str]:
    if judgement.upper_left:
        yield (
            "queries and keys of unequal lengths are aligned at the upper left (is_causal's way); "
            "say --align lower-right if a cache was meant"
        )
    if judgement.epsilon is not None:
        yield f"{judgement.epsilon:g} is added to the sum of a row: weights are that much smaller"
    if judgement.by_design is not None:
        yield SENTENCES[judgement.by_design]
    if any(named.mistake.code == "late_mask_underflow" for named in judgement.mistakes):
        yield "the mask is applied after softmax and the rows renormalised: the same by the formula"
    for line in lines:
        if line.check == "empty rows":
            yield f"rows that see nothing {line.detail}"


def _width(told: Interview) -> int:
    return int(told.seen[0].question.inputs.q.shape[-1])
