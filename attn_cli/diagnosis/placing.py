"""Placing: where a question's queries and keys stand among the tokens that somebody's code takes.

Code that has as many keys as queries is given as many of both: what is more stands beside the
question's own, and its rows are left out of the answer, its keys hidden.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attn_cli.core.masks import BoolArray
from attn_cli.diagnosis.meaning import own_mask
from attn_cli.diagnosis.plan import Plan
from attn_cli.errors import UnsupportedError


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """`lengths` are how many queries and keys the code is given; the question's own begin at
    `starts`. `keep` is what its mask argument must say, (1, 1, L | 1, S); None: nothing."""

    lengths: tuple[int, int]
    starts: tuple[int, int]
    keep: BoolArray | None


def place(plan: Plan, seen: BoolArray) -> Place:
    """Where the code sees just what `seen`, (L, S), says; UnsupportedError where that is nowhere.

    First as it is, where the code takes such lengths; then with queries and keys that begin
    together, or end together.
    """
    trouble = UnsupportedError("the code is not meant for other lengths of keys")
    for lengths, starts in _ways(plan, *seen.shape):
        try:
            return Place(lengths, starts, _keep(plan, seen, lengths, starts))
        except UnsupportedError as error:
            trouble = error
    raise trouble


def _ways(plan: Plan, L: int, S: int) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    n = max(L, S)
    if L == S or (plan.call.lengths_may_differ and not _of_itself(plan)):
        yield (L, S), (0, 0)
    if L != S:
        yield (n, n), (0, 0)
        yield (n, n), (n - L, n - S)


def _of_itself(plan: Plan) -> bool:
    """Whether the keys are the queries' tokens."""
    return [role for role in plan.call.roles if role in ("x", "context", "q", "k")] == ["x"]


def _keep(
    plan: Plan, seen: BoolArray, lengths: tuple[int, int], starts: tuple[int, int]
) -> BoolArray | None:
    """What the mask argument must say, so that the question's rows see what they should."""
    own = own_mask(plan.intent, *lengths)
    rows, columns = (slice(a, a + n) for a, n in zip(starts, seen.shape, strict=True))
    wanted = np.zeros((seen.shape[0], lengths[1]), dtype=bool)
    wanted[:, columns] = seen
    if np.array_equal(wanted, own[rows]):
        return None
    spec = plan.call.mask
    if spec is None or spec.means == "bias" or (wanted & ~own[rows]).any():
        raise UnsupportedError("the code cannot be given this mask")
    if "L" in spec.axes:
        keep = own.copy()
        keep[rows] = wanted
        return keep[None, None]
    keys: BoolArray = np.any(wanted, axis=0, keepdims=True)
    if not np.array_equal(own[rows] & keys, wanted):
        raise UnsupportedError(f"{spec.arg} hides the same keys from all queries")
    return keys[None, None]
