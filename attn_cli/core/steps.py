"""The shape trace: every step that a run takes, with its formula, named axes and shape."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.trace import ALL_STAGES, BEFORE, CONTEXT_AXES, SCORE_AXES, StageShape

X_AXES = ("batch", "query", "d_model")
MERGED_AXES = ("batch", "query", "head*d_v")
OUT_AXES = ("batch", "query", "d_out")
Q_AXES = ("batch", "head", "query", "d_k")
K_AXES = ("batch", "head", "key", "d_k")
V_AXES = ("batch", "head", "key", "d_v")


def steps(
    inputs: AttentionInputs, dtype: str, shown: AbstractSet[str] = frozenset(ALL_STAGES)
) -> tuple[StageShape, ...]:
    """The steps in the order of the formula; steps that change nothing are not taken.

    Of an engine that shows some stages only (`shown`), those: the first stage behind hidden ones is
    said to be made in one step.
    """
    taken, hidden = [], False
    for stage, axes, shape, formula in (*_given(inputs), *_core(inputs), *_after(inputs)):
        if stage in shown:
            told = f"in one step: {_whole(inputs, stage, shown)}" if hidden else formula
            taken.append(StageShape(stage, axes, shape, dtype, told))
        hidden = stage not in shown
    return tuple(taken)


def _whole(inputs: AttentionInputs, stage: str, shown: AbstractSet[str]) -> str:
    """What an engine does that shows nothing between its input, or the weights, and `stage`."""
    turned = "" if inputs.rotation is None else "_rotated"
    masking = ", masked" if inputs.masks else ""
    weights = f"softmax(q{turned} · k{turned}ᵀ, scaled{masking})"
    if stage == "weights":
        return weights
    context = f"{'weights' if 'weights' in shown else weights} · v"
    return f"({context}) · W_o" if stage == "output" else context


Step = tuple[str, tuple[str, ...], tuple[int, ...], str]


def _given(inputs: AttentionInputs) -> Iterator[Step]:
    origin = inputs.origin
    if inputs.x is not None:
        yield "x", X_AXES, inputs.x.shape, "token vectors"
    if inputs.x is not None and origin is not None and origin.encoding is not None:
        yield "x_positions", X_AXES, inputs.x.shape, "x + positions"
    for name, axes, array in (
        ("q", Q_AXES, inputs.q),
        ("k", K_AXES, inputs.k),
        ("v", V_AXES, inputs.v),
    ):
        yield name, axes, array.shape, _made(inputs, name, array.shape[1])
    if inputs.rotation is not None:
        yield "q_rotated", Q_AXES, inputs.q.shape, "q turned by its positions"
        yield "k_rotated", K_AXES, inputs.k.shape, "k turned by its positions"


def _made(inputs: AttentionInputs, name: str, heads: int) -> str:
    """How q, k or v came about."""
    if inputs.x is None:
        return "given"
    origin = inputs.origin
    vectors = "x" if origin is None or origin.encoding is None else "x_positions"
    if origin is not None and origin.context is not None and name != "q":
        vectors = "the context" if origin.context_encoding is None else "(the context + positions)"
    if origin is not None and origin.projections is not None:
        bias = getattr(origin.projections, f"b_{name}") is not None
        vectors = f"{vectors} · W_{name}{f' + b_{name}' if bias else ''}"
    return f"{vectors} split into heads" if heads > 1 else vectors


def _core(inputs: AttentionInputs) -> Iterator[Step]:
    shape = inputs.shape
    turned = "" if inputs.rotation is None else "_rotated"
    yield "scores", SCORE_AXES, shape, f"q{turned} · k{turned}ᵀ"
    if inputs.effective_scale != 1:
        yield "scaled", SCORE_AXES, shape, scaling(inputs)
    if inputs.softcap is not None:
        cap = f"{inputs.softcap:g}"
        yield "softcapped", SCORE_AXES, shape, f"{cap} · tanh(scaled ÷ {cap})"
    if inputs.has_bias:
        yield "biased", SCORE_AXES, shape, _biasing(inputs)
    if inputs.masks:
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
    d_model, shape = inputs.x.shape[2], (batch, queries, heads * d_v)
    axes = X_AXES if shape[2] == d_model else MERGED_AXES
    yield "merged", axes, shape, "heads side by side"
    weights = inputs.output_projection
    if weights is None or weights.w_o is None:
        yield "output", axes, shape, "= merged"
        return
    bias, wide = "" if weights.b_o is None else " + b_o", weights.w_o.shape[1]
    axes = X_AXES if wide == d_model else OUT_AXES
    yield "output", axes, (*shape[:2], wide), f"merged · W_o{bias}"


def scaling(inputs: AttentionInputs) -> str:
    """How the scores are scaled: ÷ √d_k, or × the given factor."""
    if inputs.scale is None:
        return f"scores ÷ √{inputs.q.shape[-1]}"
    return f"scores × {inputs.scale:.6g}"


def _biasing(inputs: AttentionInputs) -> str:
    names = [] if inputs.bias is None else ["bias"]
    names += [] if inputs.position_bias is None else [inputs.position_bias.name]
    return "+ " + " + ".join(names)


def _masking(inputs: AttentionInputs) -> str:
    if inputs.additive is None:
        return "−∞ where hidden"
    return "+ mask" if inputs.mask is None else "+ mask, −∞ where hidden"


def sources(inputs: AttentionInputs, taken: AbstractSet[str]) -> dict[str, str]:
    """For every stage the one that holds its values: itself, or where its step was not taken or
    changes nothing, the last before it that was. Without token vectors nothing is merged."""
    made = taken if inputs.output_projection is not None else taken - {"output"}
    source: dict[str, str] = {}
    for stage in ALL_STAGES:
        before = "merged" if stage == "output" and "merged" in made else BEFORE.get(stage)
        if stage in made:
            source[stage] = stage
        elif before in source:
            source[stage] = source[before]
    return source
