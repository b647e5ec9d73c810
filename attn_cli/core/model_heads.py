"""HeadFigures: one attention head of a model in numbers, and what it does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from attn_cli.core.model_calls import CallFacts, CallPlace
from attn_cli.core.results import json_number

Role = Literal["previous", "next", "self", "sink", "local", "uniform", "same"]

# Means over a head's rows, by the names that JSON has; what each is.
MEANS: Mapping[str, str] = {
    "visible_keys": "keys that a row sees",
    "sum": "sum of a row's weights: 1, or below 1 by what a sink takes",
    "entropy": "entropy of a row's weights, in nats",
    "normalized_entropy": "entropy ÷ ln(visible keys): 0 one key, 1 all alike",
    "effective_keys": "exp(entropy): over how many keys a row spreads",
    "max_weight": "largest weight of a row",
    "first_key_weight": "weight on key 0, where attention sinks are",
    "mean_distance": "Σ w·|q − k|, in tokens",
    "nearness": "mean distance ÷ that of a row which looks at its visible keys alike",
    "previous_weight": "weight on the token before the query, of rows that have one",
    "next_weight": "weight on the token after it, likewise; not in models that only see back",
    "self_weight": "weight on the query's own token",
}
OTHERS: Mapping[str, str] = {
    "least_sum": "smallest sum of a row's weights",
    "max_score": "largest masked score of any row (the largest logit of the softmax)",
    "rows": "rows that are no padding",
    "choice_rows": "of those, rows that see more than one key",
    "saturated_rows": "of those, rows that give one key more than 0.99 of the weight",
    "empty_rows": "rows that see no key",
    "filled_rows": "rows whose keys are all hidden by a finite fill, which hides nothing",
}
# What a head does, by rules that the design page states; a head has the first that holds.
ROLES: Mapping[Role, tuple[str, str]] = {
    "uniform": ("u", "looks at every visible key alike: normalised entropy of 0.95 or more"),
    "same": ("=", "has the row statistics of an earlier head of its layer, in every row"),
    "previous": ("p", "looks at the token before: half or more of what chance leaves"),
    "next": ("n", "looks at the token after: half or more of what chance leaves"),
    "self": ("o", "looks at its own token: half or more of what chance leaves"),
    "sink": ("s", "rests on key 0: half or more of what chance leaves"),
    "local": ("l", "looks near: mean distance a third or less of that of looking at all alike"),
}


def tower(facts: CallFacts) -> str:
    """What a call's layers are counted in: its stack, cross-attention apart."""
    return f"{facts.stack} cross-attention".strip() if facts.cross else facts.stack


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadFigures:
    """One head over the rows of a batch that are no padding; NaN where a figure is not defined.

    `stack` is the tower that its layer is counted in. `means` by the names in MEANS. `role` is the
    first of ROLES that holds, None where none does; `same_as` the earlier head of the layer whose
    every row has the same statistics.
    """

    place: CallPlace
    stack: str
    layer: int
    head: int
    means: Mapping[str, float]
    least_sum: float
    max_score: float
    rows: int
    choice_rows: int
    saturated_rows: int
    empty_rows: int
    filled_rows: int
    role: Role | None
    same_as: int | None

    @property
    def lost(self) -> bool:
        """Whether NaN or ∞ took part, so that it has no figures though it has rows."""
        return self.rows > self.empty_rows and math.isnan(self.means["sum"])

    def name(self, *, tower: bool) -> str:
        """`L3H4`, with its tower before it if that is wanted and there is one."""
        return f"{self.stack} " * (tower and bool(self.stack)) + f"L{self.layer}H{self.head}"

    def figure(self, name: str) -> float:
        """One of MEANS or OTHERS by its name."""
        return float(self.means[name] if name in self.means else getattr(self, name))

    def to_dict(self) -> dict[str, Any]:
        return {
            "layer": self.layer,
            "stack": self.stack,
            "path": str(self.place),
            "head": self.head,
            **{name: json_number(value) for name, value in self.means.items()},
            "least_sum": json_number(self.least_sum),
            "max_score": json_number(self.max_score),
            **{name: getattr(self, name) for name in OTHERS if name.endswith("rows")},
            "role": self.role,
            "same_as": self.same_as,
        }
