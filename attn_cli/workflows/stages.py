"""Stages by name: which of them a run takes, and which it can give."""

from __future__ import annotations

from collections.abc import Iterator

from attn_cli.core.engine import Capabilities
from attn_cli.core.findings import Finding, note
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.registry import unknown_name
from attn_cli.core.steps import sources, steps
from attn_cli.core.trace import ALL_STAGES, MODEL_STAGES
from attn_cli.errors import InputError


def taken_stages(inputs: AttentionInputs) -> frozenset[str]:
    """Every step that a run on `inputs` takes; steps that change nothing are left out."""
    return frozenset(step.stage for step in steps(inputs, "float64"))


def known_stages(inputs: AttentionInputs) -> frozenset[str]:
    """Every stage that a run on `inputs` can give, with those that equal the one before them."""
    return frozenset(sources(inputs, taken_stages(inputs)))


def not_shown(engine: str, can: Capabilities, inputs: AttentionInputs) -> Iterator[Finding]:
    """A note on the steps that an engine takes and does not show, and what is missing with them."""
    hidden = taken_stages(inputs) - can.shows(inputs)
    if hidden:
        names = ", ".join(name for name in ALL_STAGES if name in hidden)
        if can.tiles:
            words = f"keeps no {names}; of chosen rows --values makes them again"
        elif "weights" in hidden:
            words = f"does not show {names}, so there are no weights, rows and heads to see"
        else:
            words = f"does not show {names}"
        dense = "" if can.tiles else "; --engine numpy or torch does"
        yield note("not-shown", f"engine {engine} {words}{dense}")


def check_stages(inputs: AttentionInputs, wanted: frozenset[str]) -> None:
    """Raises InputError for an unknown stage, a model's, or x where there are no token vectors."""
    for name in sorted(wanted - {*ALL_STAGES, *MODEL_STAGES}):
        raise unknown_name("stage", name, ALL_STAGES)
    missing = sorted(wanted - known_stages(inputs))
    if around := [name for name in missing if name in MODEL_STAGES]:
        raise InputError(f"only a model has a stage {around[0]!r}, and this is no model")
    if missing:
        raise InputError(
            f"q, k and v came without token vectors, so there is no stage {missing[0]!r}",
            hint="output is the context of every head",
        )
