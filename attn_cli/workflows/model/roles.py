"""Roles: what a head does, by its rows; always against what its visible keys and chance allow.

A head that gives a key the share w of its weight where chance (one of its visible keys) would give
it c takes (w − c) / (1 − c) of what chance leaves. Rows that see one key alone tell nothing and are
left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.masks import BoolArray
from attn_cli.core.model_heads import ROLES, Role

Array = NDArray[Any]

UNIFORM = 0.95  # normalised entropy
BEYOND_CHANCE = 0.5  # of the weight that chance leaves
NEAR = 1 / 3  # of the distance of a row that looks at its visible keys alike
ALIKE = 1e-4  # relative: how far two heads' statistics may be apart in a row
FIRST_LOOK = 8  # rows that are compared before all
FEWEST = 3  # rows with a choice; fewer say nothing of a head

WEIGHTS: Mapping[Role, str] = {
    "previous": "previous_weight",
    "next": "next_weight",
    "self": "self_weight",
    "sink": "first_key_weight",
}


def role_of(
    rows: Mapping[str, Array],
    choice: Mapping[str, BoolArray],
    means: Mapping[str, float],
    same: bool,
) -> Role | None:
    """The first role of ROLES that holds for one head.

    `rows` are its statistics (B, L); `choice` names the rows (B, L) that count for each weight:
    those that see several keys, that one among them.
    """
    if choice["all"].sum() < FEWEST:
        return None
    holds: dict[Role, bool] = {
        "uniform": means["normalized_entropy"] >= UNIFORM,
        "same": same,
        "local": means["nearness"] <= NEAR,
    }
    for role, name in WEIGHTS.items():
        holds[role] = beyond_chance(rows[name], rows["visible_keys"], choice[name]) >= BEYOND_CHANCE
    return next((role for role in ROLES if holds[role]), None)


def beyond_chance(weight: Array, visible: Array, rows: BoolArray) -> float:
    """Of the weight that chance leaves, the share that a key takes; NaN without such rows."""
    if rows.sum() < FEWEST:
        return float("nan")
    chance = float((1 / visible[rows]).mean())
    return (float(weight[rows].mean()) - chance) / (1 - chance)


def same_as(statistics: Mapping[str, Array], live: BoolArray) -> list[int | None]:
    """For every head the first earlier one whose statistics (B, H, L) agree in every live row."""
    heads = next(iter(statistics.values())).shape[1]
    prints = [
        np.concatenate([values[:, head][live[:, head]] for values in statistics.values()])
        for head in range(heads)
    ]
    found: list[int | None] = []
    for head, mine in enumerate(prints):
        earlier = (other for other in range(head) if _alike(mine, prints[other]))
        found.append(next(earlier, None) if live[:, head].sum() >= FEWEST else None)
    return found


def _alike(a: Array, b: Array) -> bool:
    """Whether all rows agree; most heads part in the first ones."""
    first = slice(0, FIRST_LOOK)
    if a.shape != b.shape or not np.allclose(a[first], b[first], ALIKE, ALIKE, equal_nan=True):
        return False
    return bool(np.allclose(a, b, ALIKE, ALIKE, equal_nan=True))
