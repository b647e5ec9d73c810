"""Summary: what was read, and the settings that the run uses, for whoever shows them."""

from __future__ import annotations

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results import InputSummary
from attn_cli.core.settings import Settings
from attn_cli.recognize.masking import Masking
from attn_cli.recognize.numbers import precision
from attn_cli.recognize.positions import Positioning
from attn_cli.recognize.question import Question
from attn_cli.recognize.roles import Roles
from attn_cli.recognize.settings import Asked


def summary(
    inputs: AttentionInputs, question: Question, roles: Roles, second: Roles | None
) -> InputSummary:
    """What was read, in numbers and names."""
    batch, _, queries, keys = inputs.shape
    vectors = question.kind == "token vectors" and question.x is not None
    return InputSummary(
        source=roles.dump.source,
        format=roles.dump.format,
        kind=question.kind,
        batch=batch,
        queries=queries,
        keys=keys,
        d_model=question.x.shape[-1] if vectors and question.x is not None else None,
        d_k=inputs.q.shape[-1],
        d_v=inputs.v.shape[-1],
        precision=precision(question.dtypes.values()),
        sha256=roles.dump.sha256,
        context=_context_name(question, roles, second),
        tokens=roles.text("tokens") is not None,
    )


def _context_name(question: Question, roles: Roles, second: Roles | None) -> str | None:
    if not question.cross:
        return None
    return roles.label("context") if second is None else second.dump.source


def settings(
    inputs: AttentionInputs,
    question: Question,
    asked: Asked,
    masking: Masking,
    positions: Positioning,
) -> Settings:
    """Options and the file's settings as they hold for this run."""
    layer = question.layer
    return Settings(
        heads=inputs.shape[1],
        kv_heads=inputs.kv_heads,
        scale=inputs.effective_scale,
        softcap=inputs.softcap,
        mask=masking.expression,
        align=asked.choices.align,
        layout=question.layout,
        from_file=asked.from_file,
        weights=None if layer is None else layer.source,
        weights_layout=None if layer is None else layer.layout,
        init=None if layer is None else layer.init,
        seed=None if layer is None else layer.seed,
        positions=positions.text,
        rope_base=positions.read("rope_base"),
        relative_bidirectional=positions.read("relative_bidirectional"),
        max_distance=positions.read("max_distance"),
    )
