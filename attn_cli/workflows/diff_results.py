"""Results of diff: what was gathered, in the order of the formula, with tokens where there are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from attn_cli.core.difference import Tally
from attn_cli.core.inputs import Labels
from attn_cli.core.results_diff import StageResult


def results(tallies: Mapping[str, Tally], labels: Labels | None) -> tuple[StageResult, ...]:
    """One result a stage; the worst element also by its tokens."""
    found = (tally.result() for tally in tallies.values() if tally.parts)
    return tuple(
        stage if labels is None else dataclasses.replace(stage, tokens=_tokens(labels, stage.where))
        for stage in found
    )


def _tokens(labels: Labels, where: Mapping[str, int]) -> dict[str, str]:
    """The tokens of the query and of the key."""
    item = where.get("batch", 0)
    named = {"query": labels.query, "key": labels.key}
    return {
        axis: tokens[item][where[axis]]
        for axis, tokens in named.items()
        if axis in where and item < len(tokens) and where[axis] < len(tokens[item])
    }
