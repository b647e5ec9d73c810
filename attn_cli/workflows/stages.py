"""Stages around the core: what went in, in the run's precision, and the output put together."""

from __future__ import annotations

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.layer import merge_heads
from attn_cli.core.registry import unknown_name
from attn_cli.core.rounding import round_to
from attn_cli.core.steps import K_AXES, Q_AXES, V_AXES, X_AXES, steps
from attn_cli.core.trace import ALL_STAGES, CONTEXT_AXES, STAGES, Stage, Trace
from attn_cli.errors import InputError

_GIVEN = {"x": X_AXES, "q": Q_AXES, "k": K_AXES, "v": V_AXES}


def engine_stages(wanted: frozenset[str]) -> frozenset[str]:
    """The stages that an engine must keep so that `wanted` can be given; InputError if unknown."""
    for name in sorted(wanted - frozenset(ALL_STAGES)):
        raise unknown_name("stage", name, ALL_STAGES)
    core = wanted & frozenset(STAGES)
    return core | {"context"} if wanted & {"merged", "output"} else core


def taken_stages(inputs: AttentionInputs) -> frozenset[str]:
    """Every step that a run on `inputs` takes; steps that change nothing are left out."""
    return frozenset(step.stage for step in steps(inputs, "float64"))


def with_surroundings(
    inputs: AttentionInputs, trace: Trace, wanted: frozenset[str]
) -> dict[str, Stage]:
    """`wanted` stages in the order of the formula, those around the core included.

    Without token vectors the output is the context, (B, H, L, d_v); with them it is merged,
    (B, L, H·d_v). Raises InputError for x or merged where there are no token vectors.
    """
    if inputs.x is None and (missing := sorted(wanted & {"x", "merged"})):
        raise InputError(
            f"q, k and v came without token vectors, so there is no stage {missing[0]!r}",
            hint="output is the context of every head",
        )
    return {name: _stage(inputs, trace, name) for name in ALL_STAGES if name in wanted}


def _stage(inputs: AttentionInputs, trace: Trace, name: str) -> Stage:
    dtype = trace.provenance.dtype
    if name in STAGES:
        return trace.stages[name]
    if name in _GIVEN:
        return Stage(round_to(getattr(inputs, name), dtype), _GIVEN[name], dtype)
    context = trace.stages["context"].array
    if inputs.x is None:
        return Stage(context, CONTEXT_AXES, dtype)
    return Stage(merge_heads(context), X_AXES, dtype)
