"""flow: the weight that the queries of one side give to the keys of another, head by head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from attn_cli.core.masks import BoolArray
from attn_cli.core.model_calls import CallFacts
from attn_cli.core.model_flow import Flow, FlowHead
from attn_cli.core.model_heads import tower
from attn_cli.errors import InputError
from attn_cli.workflows.model.flow_sides import Side
from attn_cli.workflows.model.real_rows import real_keys, real_queries
from attn_cli.workflows.model.selection import chosen_heads
from attn_cli.workflows.model.sequences import labels_of, places, real_of, sequences

if TYPE_CHECKING:
    from attn_cli.models.hf.inputs import ModelInputs
    from attn_cli.models.hf.pair_weights import Marks, PairSums, PairWeights

SHOWN = 12  # tokens that a message lists


class FlowMarks:
    """Which queries and keys of a call are on the two sides, by position and by name."""

    def __init__(self, inputs: ModelInputs, sides: tuple[Side, Side]) -> None:
        """InputError where a side has no token in any sequence."""
        self.inputs, self.sides = inputs, sides
        for side in sides:
            _check(inputs, side)

    def __call__(self, facts: CallFacts) -> Marks | None:
        """None where a call's tokens have no names."""
        queries, keys = labels_of(self.inputs, facts)
        if queries is None or keys is None:
            return None
        source, target = self.sides
        return (
            source.marks(queries) & real_queries(self.inputs, facts),
            target.marks(keys) & real_keys(self.inputs, facts),
        )


def _check(inputs: ModelInputs, side: Side) -> None:
    there = sequences(inputs)
    if not there:
        if side.pattern is not None:
            raise InputError(
                f"--flow: {side.text} has a pattern, and this input has no tokens by name",
                hint="give positions, counted from 0",
            )
        return
    if not any(
        (side.marks(labels) & real_of(inputs, name)).any() for name, labels in there.items()
    ):
        first = next(iter(there.values()))[0]
        listed = " ".join(f"{p}:{token}" for p, token in enumerate(first[:SHOWN]))
        more = " …" if len(first) > SHOWN else ""
        raise InputError(
            f"--flow: no token matches {side.text}", hint=f"the tokens are {listed}{more}"
        )


def flow(
    asked: str,
    weights: PairWeights,
    calls: Sequence[CallFacts],
    inputs: ModelInputs,
    heads: tuple[int, ...] | None,
    *,
    matched: str,
) -> Flow:
    """The chosen heads of the chosen calls, the strongest first.

    The tokens that are listed are those of the call with the strongest head: an encoder-decoder has
    several sequences. InputError where no call has both sides.
    """
    found = [
        head
        for facts in calls
        if (sums := weights.sums.get(facts.place)) is not None
        for head in _heads(facts, sums, chosen_heads(facts, heads))
    ]
    if not found:
        raise InputError(
            f"no shown layer has queries and keys of {asked!r}",
            hint="are both sides in one sequence, and within its length?",
        )
    found.sort(key=lambda head: -head.weight if head.weight == head.weight else np.inf)
    strongest = next(facts for facts in calls if facts.place == found[0].place)
    queries, keys = _sides(weights, strongest)
    names, others = labels_of(inputs, strongest)
    assert names is not None
    assert others is not None
    return Flow(
        asked=asked,
        matched=matched,
        queries=tuple(places(names, queries)),
        keys=tuple(places(others, keys)),
        heads=tuple(found),
    )


def _sides(weights: PairWeights, facts: CallFacts) -> tuple[BoolArray, BoolArray]:
    """The queries and keys that count: an item without a key has none."""
    marks = weights.marks(facts)
    assert marks is not None
    queries, keys = marks
    return queries & keys.any(1, keepdims=True), keys


def _heads(facts: CallFacts, sums: PairSums, heads: Sequence[int]) -> Iterator[FlowHead]:
    count = int(sums.queries.sum())
    for head in heads:
        weight, largest, chance = (
            float(total[:, head].sum()) / count
            for total in (sums.weight, sums.largest, sums.chance)
        )
        yield FlowHead(
            place=facts.place,
            stack=tower(facts),
            layer=facts.layer,
            head=head,
            queries=count,
            weight=weight,
            largest=largest,
            chance=chance,
        )
