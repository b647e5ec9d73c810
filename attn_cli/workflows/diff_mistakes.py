"""Mistakes in a comparison: what of the catalogue explains a side's own faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attn_cli.core.results_diff import SIDES, Side, StageResult
from attn_cli.core.results_mistakes import Diagnosis
from attn_cli.recognize.stage_dump import ORDER, StageDump
from attn_cli.workflows.check.dump_said import assumed_mask
from attn_cli.workflows.diff_question import Asked
from attn_cli.workflows.stage_mistakes import Wrong, explain_stages

ENTERING = ("q", "k", "v")


def mistakes_of(
    dumps: Mapping[Side, StageDump],
    stages: Sequence[StageResult],
    question: Asked,
    conventions: Mapping[Side, bool],
) -> dict[Side, Diagnosis]:
    """Side → what explains it, for the sides with faults of their own where stages are different.

    q, k and v that a side lacks are the other's. Where nobody gave a mask, it is that of the other.
    """
    if not any(stage.verdict == "different" for stage in stages):
        return {}
    return {
        side: _of(side, dumps, faulty, question, conventions)
        for side in SIDES
        if (faulty := [stage for stage in stages if side in stage.faulty])
    }


def _of(
    side: Side,
    dumps: Mapping[Side, StageDump],
    faulty: Sequence[StageResult],
    question: Asked,
    conventions: Mapping[Side, bool],
) -> Diagnosis:
    ours = dumps[side]
    theirs = next(dumps[other] for other in SIDES if other != side)
    lent = {n: a for n, a in theirs.stages.items() if n in ENTERING and n not in ours.stages}
    held = {**lent, **ours.stages}
    known, _ = assumed_mask(question, theirs)
    wrong = Wrong(
        held=held,
        order=tuple(name for name in ORDER if name in held),
        stages=tuple(stage.stage for stage in faulty),
        dtype=ours.dtype,
        factor=known.inputs.effective_scale if conventions[side] else 1.0,
        at=(faulty[0].where.get("batch", 0), faulty[0].where.get("head", 0)),
        own_first=known.settings.mask is not None,
    )
    return explain_stages(wrong, known.inputs)
