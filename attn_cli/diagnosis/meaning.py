"""What is right: a plan and the numbers given, as AttentionInputs for attn's own engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.engine import Ask
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.layer import Origin, Projections, make_qkv, split_heads
from attn_cli.core.masks import BoolArray, MaskContext, evaluate
from attn_cli.core.positions import Rotation, ScoreBias
from attn_cli.core.trace import ALL_STAGES, Trace
from attn_cli.diagnosis.drawing import Parameters
from attn_cli.diagnosis.plan import HEADED, Intent, MaskSpec, Plan
from attn_cli.diagnosis.question import Question
from attn_cli.engines import ENGINES
from attn_cli.errors import InputError
from attn_cli.masks.expression import parse
from attn_cli.masks.file import Stored
from attn_cli.positions.alibi import Alibi, slopes
from attn_cli.positions.rope import Rope

Array = NDArray[Any]


def reference(question: Question) -> Trace:
    """The float64 answer with all its stages, by the engine `numpy`."""
    return ENGINES["numpy"].run(question.inputs, Ask(keep=frozenset(ALL_STAGES)))


def ask(
    plan: Plan,
    parameters: Parameters,
    given: Mapping[str, Array],
    *,
    name: str,
    layout: str,
    keep: BoolArray | None = None,
    bias: Array | None = None,
    steps: Sequence[int] = (),
    left_padded: bool = False,
) -> Question:
    """The question of these arrays: see Question for their axes.

    `left_padded` says that hidden keys stand before the first token, from which positions count.
    Raises InputError where the arrays do not fit the plan.
    """
    lengths = keep[:, 0, 0].astype(int) if left_padded and keep is not None else None
    q, k, v, origin = _qkv(plan, parameters, given, layout, lengths)
    if (spec := plan.call.mask) is not None and spec.required and keep is None and bias is None:
        keep, bias = _nothing(spec, (q.shape[0], q.shape[1], q.shape[2], k.shape[2]))
    own = own_mask(plan.intent, q.shape[2], k.shape[2], steps)
    inputs = AttentionInputs(
        q,
        k,
        v,
        mask=_mask(own, keep, (q.shape[0], q.shape[1], q.shape[2], k.shape[2]), plan.intent),
        bias=bias,
        scale=plan.intent.scale,
        softcap=plan.intent.softcap,
        sinks=parameters.sinks,
        q_offset=offset(plan.intent, q.shape[2], k.shape[2]),
        x=None if origin is None else origin.x,
        rotation=rotation(plan.intent),
        position_bias=position_bias(plan.intent, q.shape[1]),
        origin=origin,
    )
    return Question(name, layout, given, inputs, keep, bias, tuple(steps))


def _nothing(
    spec: MaskSpec, shape: tuple[int, int, int, int]
) -> tuple[BoolArray | None, Array | None]:
    """The mask that hides nothing, or the bias of zeros, for code that must be given one."""
    sizes = tuple(n if letter in spec.axes else 1 for letter, n in zip("BHLS", shape, strict=True))
    return (None, np.zeros(sizes)) if spec.means == "bias" else (np.ones(sizes, dtype=bool), None)


def own_mask(intent: Intent, queries: int, keys: int, steps: Sequence[int] = ()) -> BoolArray:
    """What the code is meant to hide by itself, (L, S): the future, and what a window leaves out.

    Queries are the last ones of the keys where there are more keys. In steps with a cache, a query
    cannot see the keys of later steps.
    """
    q_pos = np.arange(queries)[:, None] + offset(intent, queries, keys)
    k_pos = np.arange(keys)[None, :]
    own = np.ones((queries, keys), dtype=bool)
    if intent.causal:
        own &= k_pos <= q_pos
    if intent.window is not None:
        near = q_pos - k_pos < intent.window
        own &= near if intent.causal else near & (k_pos - q_pos < intent.window)
    if intent.mask is not None:
        own &= _expression(intent, queries, keys)
    if steps:
        ends = np.repeat(np.cumsum(steps), steps)
        own &= k_pos < ends[:, None]
    return own


def _expression(intent: Intent, queries: int, keys: int) -> BoolArray:
    """The mask of an expression, (L, S), as it is for the first item and head."""
    start = offset(intent, queries, keys)
    context = MaskContext(1, 1, queries, keys, q_offset=start)
    mask = parse(intent.mask or "none").build(context)
    positions = range(start, start + queries)
    whole = evaluate(mask, batch=1, heads=1, queries=positions, keys=range(keys))
    seen: BoolArray = whole[0, 0]
    return seen


def offset(intent: Intent, queries: int, keys: int) -> int:
    """The position of query 0: lower-right where the code compares positions to hide keys."""
    compares = intent.causal or intent.window is not None or intent.mask is not None
    return keys - queries if compares and intent.align != "upper-left" else 0


def rotation(intent: Intent) -> Rotation | None:
    """The turning of q and k that the code is meant to do."""
    if intent.rope is None:
        return None
    interleaved = intent.rope.layout == "interleaved"
    return Rope("interleaved" if interleaved else "half", intent.rope.base)


def position_bias(intent: Intent, heads: int) -> ScoreBias | None:
    """What the code is meant to add to the scores by itself."""
    return Alibi(slopes(heads)) if intent.alibi else None


def _mask(
    own: BoolArray, keep: BoolArray | None, shape: tuple[int, int, int, int], intent: Intent
) -> Stored | None:
    seen = np.broadcast_to(own if keep is None else own & keep, shape)
    return None if seen.all() else Stored(seen, offset(intent, shape[2], shape[3]))


def _qkv(
    plan: Plan,
    parameters: Parameters,
    given: Mapping[str, Array],
    layout: str,
    lengths: Array | None,
) -> tuple[Array, Array, Array, Origin | None]:
    """q, k and v in heads, and the layer that makes them where there is one."""
    if "x" not in given and parameters.projections is None:
        if layout in HEADED:
            return given["q"], given["k"], given["v"], None
        heads = plan.intent.heads or 1
        kv_heads = plan.intent.kv_heads or heads
        split = [split_heads(given["q"], heads)]
        split += [split_heads(given[name], kv_heads) for name in ("k", "v")]
        return split[0], split[1], split[2], None
    origin = _origin(plan, parameters, given, lengths)
    return *make_qkv(origin), origin


def _origin(
    plan: Plan, parameters: Parameters, given: Mapping[str, Array], lengths: Array | None
) -> Origin:
    heads = plan.intent.heads or 1
    weights = parameters.projections
    x = given["x"] if "x" in given else given["q"]
    encoding = None
    if parameters.positions is not None:
        if x.shape[1] > len(parameters.positions):
            raise InputError(
                f"{x.shape[1]} tokens, and the table of positions has {len(parameters.positions)}"
            )
        if lengths is None:
            encoding = parameters.positions[: x.shape[1]]
        else:  # each item counts from its first token
            x = x + parameters.positions[np.maximum(lengths.cumsum(-1) - 1, 0)]
    context = given.get("context")
    if "k" in given:
        context, weights = _keys_and_values(given["k"], given["v"], weights)
    return Origin(
        x=x,
        heads=heads,
        kv_heads=plan.intent.kv_heads or heads,
        context=context,
        encoding=encoding,
        projections=weights,
    )


def _keys_and_values(
    k: Array, v: Array, weights: Projections | None
) -> tuple[Array, Projections | None]:
    """One sequence for keys and values; where they differ, both side by side in its width."""
    if k is v or weights is None:
        return k, weights
    none_k = np.zeros((v.shape[-1], weights.w_k.shape[1]))
    none_v = np.zeros((k.shape[-1], weights.w_v.shape[1]))
    both = Projections(
        w_q=weights.w_q,
        w_k=np.concatenate([weights.w_k, none_k]),
        w_v=np.concatenate([none_v, weights.w_v]),
        w_o=weights.w_o,
        b_q=weights.b_q,
        b_k=weights.b_k,
        b_v=weights.b_v,
        b_o=weights.b_o,
    )
    return np.concatenate([k, v], axis=-1), both
