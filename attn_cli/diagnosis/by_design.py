"""By design: what would be a mistake, but for what the code says of itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attn_cli.diagnosis.explaining import Explanation, reproduces
from attn_cli.diagnosis.formula.steps import softmax as softmax_step
from attn_cli.diagnosis.formula.work import Setting, Step, Work
from attn_cli.diagnosis.plan import Plan
from attn_cli.diagnosis.probes.probe import Seen
from attn_cli.diagnosis.subject import Adapted

EPSILON = 1e-5  # the largest number that may be added to a sum of exp, of 1 at least


@dataclass(frozen=True, slots=True)
class Design:
    """The words by which code says that it means it, those by which it says that it does not, and
    the convention in one sentence."""

    words: str
    sentence: str
    denies: str = r"(?!)"


# Named together. "q, k, v per head" alone says no more than that there are heads.
_QKV = r"\bq(uery|ueries)?\b\W{1,3}k(eys?)?\b\W{1,3}(and )?v(alues?)?\b"

DESIGNS: Mapping[str, Design] = {
    "scale_missing": Design(
        r"T5|(?i:unscaled|no scaling|not scaled|without (the )?scal|scale is folded)",
        "the scores are not scaled, as in T5; say --scale if they should be",
    ),
    "qkv_interleaved_layout": Design(
        rf"query_key_value|(?i:neox|bloom|megatron|head by head|{_QKV} of (each|every) head\b|"
        rf"\b(each|every) head's {_QKV})",
        "the packed projection holds q, k and v of each head in turn, as in GPT-NeoX",
        denies=r"(?i)\[\W*(w_?)?q\w*\s*[|;]\s*(w_?)?k\w*\s*[|;]\s*(w_?)?v\w*\W*\]|"
        r"\bq\w*\b.{0,20}\bthen\b.{0,20}\bk\w*\b.{0,20}\bthen\b.{0,20}\bv",
    ),
}
SOFTMAX_ONE = "softmax_one"
_SAYS_ONE = r"(?i)softmax_?(1|one|plus_?one)|off.by.one|quiet|sink"
SENTENCES: Mapping[str, str] = {
    **{code: design.sentence for code, design in DESIGNS.items()},
    SOFTMAX_ONE: "1 stands in the denominator beside the sum of exp (softmax1): rows sum to less",
}


def meant(adapted: Adapted, setting: Setting, found: Sequence[Explanation]) -> str | None:
    """The one mistake that explains the code, where the code says that it means it.

    How a packed projection lies is judged where it was said.
    """
    if len(found) != 1 or len(found[0].mistakes) != 1:
        return None
    code = found[0].mistakes[0].code
    if code == "scale_missing" and setting.plan.intent.scale is not None:  # one was said
        return None
    if code == "qkv_interleaved_layout" and adapted.weights_said:
        return None
    design = DESIGNS.get(code)
    if design is None or re.search(design.denies, setting.source):
        return None
    return code if re.search(design.words, setting.source) else None


def as_meant(plan: Plan, by_design: str | None) -> Plan:
    """The plan that says itself what was found to be by design: what is saved is judged alike."""
    spec = plan.intent.weights
    if by_design != "qkv_interleaved_layout" or spec is None or "qkv" not in spec.names:
        return plan
    weights = replace(spec, type="fused_by_head")
    return replace(plan, intent=replace(plan.intent, weights=weights))


def softmax_one(setting: Setting, seen: Sequence[Seen]) -> bool:
    """Whether all that is odd is a 1 in the denominator, of which the code speaks."""
    odd = not all(one.agrees for one in seen) and re.search(_SAYS_ONE, setting.source) is not None
    return odd and reproduces(setting, seen, {"softmax": _sink_of_zero})


def epsilon(setting: Setting, seen: Sequence[Seen]) -> float | None:
    """The small number out of the source that is added to the sums of exp, where that is all."""
    if all(one.agrees for one in seen):
        return None
    small = [value for value in setting.constants if 0 < value <= EPSILON]
    return next((e for e in small if reproduces(setting, seen, {"softmax": _adding(e)})), None)


def _adding(number: float) -> Step:
    """Softmax with a number added to the sum after the maximum was subtracted."""

    def softmax(work: Work) -> None:
        softmax_step(work)
        e = np.exp(work.scores - work.scores.max(-1, keepdims=True))
        work.weights = e / (work.arithmetic.total(e) + number)

    return softmax


def _sink_of_zero(work: Work) -> None:
    """exp(s) / (1 + Σ exp(s)), the same for every shift of all of them."""
    top = np.maximum(work.scores.max(-1, keepdims=True), 0)
    e = np.exp(work.scores - top)
    work.weights = e / (work.arithmetic.total(e) + np.exp(-top))
