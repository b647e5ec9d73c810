"""HeadCondition: what no head may do, as `normalized_entropy<0.05`."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from attn_cli.core.model_heads import MEANS, OTHERS, HeadFigures
from attn_cli.core.registry import unknown_name
from attn_cli.core.results import json_number
from attn_cli.errors import InputError

COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_FORM = re.compile(
    r"\s*(?P<name>[\w-]+)\s*(?P<sign><=|>=|<|>)\s*(?P<number>[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)\s*",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class HeadCondition:
    """A figure by its JSON name, a comparison and a number; a figure that is NaN meets none."""

    name: str
    sign: str
    number: float

    def __str__(self) -> str:
        return f"{self.name}{self.sign}{self.number:g}"

    def holds(self, head: HeadFigures) -> bool:
        """Whether this head meets it."""
        return COMPARE[self.sign](head.figure(self.name), self.number)


@dataclass(frozen=True, slots=True)
class Met:
    """A condition and the shown heads that meet it, the farthest beyond it first."""

    condition: HeadCondition
    heads: tuple[HeadFigures, ...]
    undefined: int = 0  # heads that have no such figure
    lost: tuple[HeadFigures, ...] = ()  # of those, heads that NaN or ∞ took their figures from

    @property
    def failed(self) -> bool:
        """Whether a head meets it, or none can be said to keep it: lost numbers are no pass."""
        return bool(self.heads or self.lost)

    @property
    def unmet(self) -> str:
        """That no head meets it, and how many were not asked."""
        without = f" ({self.undefined:,} have no such figure)" if self.undefined else ""
        return f"no head has {self.condition}{without}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "condition": str(self.condition),
            "undefined": self.undefined,
            "heads": [
                {
                    "layer": head.layer,
                    "stack": head.stack,
                    "path": str(head.place),
                    "head": head.head,
                    "value": json_number(head.figure(self.condition.name)),
                }
                for head in self.heads
            ],
        }


def head_condition(text: str) -> HeadCondition:
    """The condition that a text is; InputError for another form or an unknown name.

    >>> head_condition("max_weight >= 0.5")
    HeadCondition(name='max_weight', sign='>=', number=0.5)
    """
    found = _FORM.fullmatch(text)
    number = math.inf if found is None else float(found["number"])
    if found is None or math.isinf(number):
        raise InputError(
            f"the condition {text!r} cannot be read: expected a figure, one of < <= > >=, and a "
            "number",
            hint='for example "normalized_entropy<0.05"',
        )
    if found["name"] not in {**MEANS, **OTHERS}:
        raise unknown_name("figure", found["name"], (*MEANS, *OTHERS))
    return HeadCondition(found["name"], found["sign"], number)


def met(condition: HeadCondition, heads: tuple[HeadFigures, ...]) -> Met:
    """Which of the heads meet a condition."""
    holding = [head for head in heads if condition.holds(head)]
    downwards = condition.sign.startswith(">")
    holding.sort(key=lambda head: head.figure(condition.name), reverse=downwards)
    undefined = sum(math.isnan(head.figure(condition.name)) for head in heads)
    return Met(condition, tuple(holding), undefined, tuple(head for head in heads if head.lost))
