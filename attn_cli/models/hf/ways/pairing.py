"""Pairing: which calls and layers of two models are held against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from attn_cli.core.model_calls import CallFacts
from attn_cli.models.hf.ways.alone import Key, Record

T = TypeVar("T")
Pairs = list[tuple[Key, Key]]


def paired(left: Record, right: Record) -> Pairs:
    """Left and right keys: calls, layers, then outputs, each kind in the left side's order.

    By their paths where one side has all of the other's, as two depths of one family have; else in
    the order in which they ran, cross-attention with cross-attention.
    """
    pairs: Pairs = []
    for kind in ("call", "layer", "output"):
        ours, theirs = _of_kind(left, kind), _of_kind(right, kind)
        pairs += _match(ours, theirs, lambda key, side: _sort(key, left if side else right))
    return pairs


def unpaired(left: Sequence[CallFacts], right: Sequence[CallFacts]) -> str:
    """That one side has more attention than the other, in words; empty where both have as much."""
    if len(left) == len(right):
        return ""
    fewer = min(len(left), len(right))
    calls = "call" if len(left) == 1 else "calls"
    pairs = "1 pair is" if fewer == 1 else f"{fewer:,} pairs are"
    return f"left makes {len(left):,} {calls} of attention and right {len(right):,}: {pairs} held"


def _of_kind(record: Record, kind: str) -> list[Key]:
    keys: Iterable[Key] = record.order
    return [key for key in keys if key[0] == kind]


def _match(
    ours: Sequence[Key], theirs: Sequence[Key], sort: Callable[[Key, bool], object]
) -> Pairs:
    both = set(ours) & set(theirs)
    if len(both) == min(len(ours), len(theirs)):
        return [(key, key) for key in ours if key in both]
    pairs: Pairs = []
    for each in dict.fromkeys(sort(key, True) for key in ours):
        mine = [key for key in ours if sort(key, True) == each]
        other = [key for key in theirs if sort(key, False) == each]
        pairs += zip(mine, other, strict=False)
    order = {key: place for place, key in enumerate(ours)}
    return sorted(pairs, key=lambda pair: order[pair[0]])


def _sort(key: Key, record: Record) -> object:
    """What may only be paired with its like."""
    if key[0] == "call":
        return record.calls[key].facts.cross
    return key if key[0] == "output" else ""
