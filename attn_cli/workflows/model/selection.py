"""Selection: which layers and heads of a model are shown; never what is computed."""

from __future__ import annotations

from collections.abc import Sequence

from attn_cli.core.model_calls import CallFacts
from attn_cli.core.spans import spans
from attn_cli.errors import InputError


def chosen_calls(
    calls: Sequence[CallFacts], layers: tuple[int, ...] | None
) -> tuple[CallFacts, ...]:
    """The calls of the layers with these numbers, in every tower; InputError for one nowhere."""
    if layers is None:
        return tuple(calls)
    there = sorted({facts.layer for facts in calls})
    for layer in layers:
        if layer not in there:
            raise InputError(
                f"there is no attention in a layer {layer}: it is in {_layers(there)}",
                hint="--layer takes those numbers",
            )
    return tuple(facts for facts in calls if facts.layer in layers)


def _layers(there: Sequence[int]) -> str:
    return f"layer{'s' if len(there) > 1 else ''} {spans(there)}"


def chosen_heads(facts: CallFacts, heads: tuple[int, ...] | None) -> tuple[int, ...]:
    """The chosen heads that this call has; towers may have different numbers of heads."""
    return (
        tuple(range(facts.heads)) if heads is None else tuple(h for h in heads if h < facts.heads)
    )


def check_heads(calls: Sequence[CallFacts], heads: tuple[int, ...] | None) -> None:
    """InputError for a head that no chosen layer has."""
    most = max(facts.heads for facts in calls)
    for head in heads or ():
        if head >= most:
            raise InputError(
                f"there is no head {head}: the layers have {most}",
                hint=f"give --head a number from 0 to {most - 1}",
            )


def checked_items(items: tuple[int, ...] | None, batch: int) -> tuple[int, ...]:
    """The chosen items of the batch, all where none are; InputError for one that is not there."""
    for item in items or ():
        if item >= batch:
            raise InputError(
                f"there is no item {item}: the batch has {batch}",
                hint=f"give --item a number from 0 to {batch - 1}",
            )
    return tuple(range(batch)) if items is None else items
