"""The shape trace: every step that a run takes, with its formula, named axes and shape."""

from __future__ import annotations

from collections.abc import Iterator

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.trace import CONTEXT_AXES, SCORE_AXES, StageShape

X_AXES = ("batch", "query", "d_model")
Q_AXES = ("batch", "head", "query", "d_k")
K_AXES = ("batch", "head", "key", "d_k")
V_AXES = ("batch", "head", "key", "d_v")


def steps(inputs: AttentionInputs, dtype: str) -> tuple[StageShape, ...]:
    """The steps in the order of the formula; steps that change nothing are not taken."""
    return tuple(
        StageShape(stage, axes, shape, dtype, formula)
        for stage, axes, shape, formula in (*_given(inputs), *_core(inputs), *_after(inputs))
    )


Step = tuple[str, tuple[str, ...], tuple[int, ...], str]


def _given(inputs: AttentionInputs) -> Iterator[Step]:
    if inputs.x is not None:
        yield "x", X_AXES, inputs.x.shape, "token vectors"
    split = "given" if inputs.x is None else "x" if inputs.q.shape[1] == 1 else "x split into heads"
    yield "q", Q_AXES, inputs.q.shape, split
    for name, axes, array in (("k", K_AXES, inputs.k), ("v", V_AXES, inputs.v)):
        yield name, axes, array.shape, split


def _core(inputs: AttentionInputs) -> Iterator[Step]:
    shape = inputs.shape
    yield "scores", SCORE_AXES, shape, "q · kᵀ"
    if inputs.effective_scale != 1:
        yield "scaled", SCORE_AXES, shape, scaling(inputs)
    if inputs.softcap is not None:
        cap = f"{inputs.softcap:g}"
        yield "softcapped", SCORE_AXES, shape, f"{cap} · tanh(scaled ÷ {cap})"
    if inputs.bias is not None:
        yield "biased", SCORE_AXES, shape, "+ bias"
    if inputs.mask is not None or inputs.additive is not None or inputs.hides_by_adding:
        yield "masked", SCORE_AXES, shape, _masking(inputs)
    sink = "" if inputs.sinks is None else ", a sink in the denominator"
    yield "weights", SCORE_AXES, shape, f"softmax over key{sink}"
    yield "context", CONTEXT_AXES, (*inputs.q.shape[:3], inputs.v.shape[3]), "weights · v"


def _after(inputs: AttentionInputs) -> Iterator[Step]:
    batch, heads, queries, _ = inputs.q.shape
    d_v = inputs.v.shape[3]
    if inputs.x is None:
        yield "output", CONTEXT_AXES, (batch, heads, queries, d_v), "= context"
        return
    shape = (batch, queries, heads * d_v)
    yield "merged", X_AXES, shape, "heads side by side"
    yield "output", X_AXES, shape, "= merged"


def scaling(inputs: AttentionInputs) -> str:
    """How the scores are scaled: ÷ √d_k, or × the given factor."""
    if inputs.scale is None:
        return f"scores ÷ √{inputs.q.shape[-1]}"
    return f"scores × {inputs.scale:.6g}"


def _masking(inputs: AttentionInputs) -> str:
    if inputs.additive is None:
        return "−∞ where hidden"
    return "+ mask" if inputs.mask is None else "+ mask, −∞ where hidden"
