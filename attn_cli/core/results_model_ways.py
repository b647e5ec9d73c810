"""Frozen results of `attn model --check`: the same tokens run in two ways, held together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attn_cli.core.compare import RANK, Verdict
from attn_cli.core.results import json_number

CALL_STAGES = ("q", "k", "v", "scores", "weights", "context")
CHECKS = {  # by name, and what each holds
    "padding": "a padded text is the text alone",
    "cache": "prefill and decoding with a cache is the whole text at once",
    "batch": "an item in a batch is the item alone",
    "chunks": "a prefill in chunks is the whole text at once",
    "packing": "a text packed into one row with others is the text alone",
}
STAGES = (*CALL_STAGES, "layer output", "output")  # in the order in which they come about


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """The first place where two runs part: what runs first, its first stage, its first position.

    `where` is the path of the call or layer, or the name of the output; `layer` and `stack` are
    None for an output. `head` is None for what has no heads, and a key/value head for k and v.
    `position` counts the tokens of the text alone, without padding. `gap` is the largest distance
    at that position, `budget` what rounding may make there. `outside` is the weight that goes to
    tokens that are no part of the text: padding, another document.
    """

    where: str
    layer: int | None
    stack: str | None
    stage: str
    head: int | None
    item: int
    position: int
    token: str | None
    gap: float
    budget: float
    outside: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        plain = ("where", "layer", "stack", "stage", "head", "item", "position", "token")
        numbers = {name: json_number(getattr(self, name)) for name in ("gap", "budget", "outside")}
        return {**{name: getattr(self, name) for name in plain}, **numbers}


@dataclass(frozen=True, slots=True, kw_only=True)
class WayCheck:
    """One way of running a text against the text run plainly and alone.

    `name` is the check, `way` which of its ways, `words` what was done. `verdict` None: the check
    does not apply, and `why` says the reason; it counts as neither passed nor failed. `share` is
    the largest distance of any stage as a share of its budget, `compared` the number of calls,
    layers and outputs that were held, `left_out` the paths of those that could not be: the run has
    them with other axes than the text alone.
    """

    name: str
    way: str
    words: str
    verdict: Verdict | None
    why: str = ""
    share: float = 0.0
    max_abs: float = 0.0  # of the model's output
    compared: int = 0
    left_out: tuple[str, ...] = ()
    parting: Parting | None = None

    def to_dict(self) -> dict[str, Any]:
        plain = ("name", "way", "words", "verdict", "why", "compared")
        return {
            **{name: getattr(self, name) for name in plain},
            "left_out": list(self.left_out),
            "share_of_budget": json_number(self.share),
            "max_abs": json_number(self.max_abs),
            "parting": None if self.parting is None else self.parting.to_dict(),
        }


def joined(checks: Sequence[WayCheck]) -> WayCheck:
    """The same way of several texts as one result: the worst verdict, the first text that parts."""
    done = [check for check in checks if check.verdict is not None]
    if not done:
        return checks[0]
    worst = max(done, key=lambda check: RANK.index(check.verdict or "identical"))
    return WayCheck(
        name=worst.name,
        way=worst.way,
        words=done[0].words,
        verdict=worst.verdict,
        share=max(check.share for check in done),
        max_abs=max(check.max_abs for check in done),
        compared=max(check.compared for check in done),
        left_out=tuple(dict.fromkeys(path for check in done for path in check.left_out)),
        parting=worst.parting,
    )
