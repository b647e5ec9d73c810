"""Case: a dump's stages as a question that the formula can be asked, with its mistakes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import FINITE_FILL, AttentionInputs
from attn_cli.core.layer import Origin, Projections
from attn_cli.core.masks import BoolArray
from attn_cli.diagnosis.drawing import Parameters
from attn_cli.diagnosis.dumped.masks import MaskReading, readings
from attn_cli.diagnosis.formula.work import Setting
from attn_cli.diagnosis.plan import Call, MaskSpec, Plan, Rope
from attn_cli.diagnosis.question import Question
from attn_cli.masks.file import Stored
from attn_cli.positions.alibi import Alibi
from attn_cli.positions.rope import Rope as Rotation

Array = NDArray[Any]
MOST_FILLS = 3  # different numbers at hidden scores that are taken for fills


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """The question and the setting of a dump, by one reading of its mask."""

    question: Question
    setting: Setting


def cases(
    inputs: AttentionInputs, held: Mapping[str, Array], *, own_first: bool
) -> tuple[Case, ...]:
    """One case for each way in which the mask may have come about.

    `inputs` may have stand-ins for q, k and v that `held` lacks. `own_first`: the mask is rather
    the code's own than one that it was given.
    """
    seen, added = _hidden(inputs)
    start = inputs.q_offset or 0
    return tuple(
        _case(inputs, held, reading, seen, added)
        for reading in readings(seen, start, own_first=own_first)
    )


def _hidden(inputs: AttentionInputs) -> tuple[BoolArray | None, Array | None]:
    """Which keys are seen, a finite fill hides its key too, and what is added to the others."""
    seen = inputs.counted()
    if inputs.additive is None:
        return seen, None
    added = np.where(inputs.additive <= FINITE_FILL, 0, inputs.additive)
    return seen, added if added.any() else None


def _case(
    inputs: AttentionInputs,
    held: Mapping[str, Array],
    reading: MaskReading,
    seen: BoolArray | None,
    added: Array | None,
) -> Case:
    origin, alibi = inputs.origin, isinstance(inputs.position_bias, Alibi)
    bias = _bias(inputs, added, alibi=alibi)
    if origin is None and {"merged", "output"} & held.keys():
        origin = _stand_in(inputs)
    projected = origin is not None and origin.projections is not None
    asked = dataclasses.replace(
        inputs,
        mask=None if seen is None else Stored(seen, inputs.q_offset or 0),
        additive=None,
        bias=bias,
        x=origin.x if origin is not None and projected else None,
        origin=origin if projected else None,
        position_bias=inputs.position_bias if alibi else None,
        labels=None,
    )
    intent = dataclasses.replace(
        reading.intent,
        heads=inputs.shape[1],
        kv_heads=inputs.kv_heads,
        scale=inputs.effective_scale,
        softcap=inputs.softcap,
        alibi=alibi,
        rope=_rope(inputs),
    )
    given, roles = _given(inputs, origin if projected else None)
    layout = "BLD" if projected else "BHLD"
    call = Call(
        kind="function",
        lib="numpy",
        inputs=roles,
        layouts=(layout,),
        lengths_may_differ=True,
        mask=reading.spec or (None if bias is None else MaskSpec("bias", "bias_1htt", "float")),
        returns=("out", "weights") if "weights" in held else ("out",),
    )
    parameters = Parameters(
        projections=origin.projections if origin is not None else None,
        sinks=inputs.sinks,
        positions=origin.encoding if origin is not None else None,
    )
    setting = Setting(Plan(call, intent), parameters, constants=_fills(held, seen))
    return Case(Question("the dump", layout, given, asked, reading.keep, bias), setting)


def _bias(inputs: AttentionInputs, added: Array | None, *, alibi: bool) -> Array | None:
    """All that is added to the scaled scores, but ALiBi, which the formula makes itself."""
    parts = [array for array in (inputs.bias, added) if array is not None]
    if inputs.position_bias is not None and not alibi:
        plain = dataclasses.replace(inputs, bias=None)
        parts.append(np.stack([plain.biased_by(b) for b in range(inputs.shape[0])]))
    return sum(parts[1:], start=parts[0]) if parts else None


def _stand_in(inputs: AttentionInputs) -> Origin:
    """Token vectors and matrices of zeros: q, k and v are put in their places when they are made.

    With them the formula merges the heads, which somebody's stages show.
    """
    B, H, L, S = inputs.shape
    d_k, d_v, kv_heads = inputs.q.shape[-1], inputs.v.shape[-1], inputs.kv_heads
    width = H * d_k
    weights = Projections(
        w_q=np.zeros((width, H * d_k)),
        w_k=np.zeros((width, kv_heads * d_k)),
        w_v=np.zeros((width, kv_heads * d_v)),
    )
    context = np.zeros((B, S, width))
    return Origin(np.zeros((B, L, width)), H, kv_heads, context, projections=weights)


def _given(
    inputs: AttentionInputs, origin: Origin | None
) -> tuple[dict[str, Array], tuple[str, ...]]:
    """What the formula begins with, by role."""
    if origin is None:
        return {"q": inputs.q, "k": inputs.k, "v": inputs.v}, ("q", "k", "v")
    if origin.context is None:
        return {"x": origin.x}, ("x",)
    context = origin.context
    if origin.context_encoding is not None:
        context = context + origin.context_encoding
    return {"x": origin.x, "context": context}, ("x", "context")


def _rope(inputs: AttentionInputs) -> Rope | None:
    rotation = inputs.rotation
    return Rope(rotation.base, rotation.pairing) if isinstance(rotation, Rotation) else None


def _fills(held: Mapping[str, Array], seen: BoolArray | None) -> tuple[float, ...]:
    """The numbers that stand at hidden scores, where they are few."""
    masked = held.get("masked")
    if masked is None or seen is None:
        return ()
    found = np.unique(masked[~np.broadcast_to(seen, masked.shape)])
    found = found[np.isfinite(found)]
    return tuple(found.tolist()) if len(found) <= MOST_FILLS else ()
