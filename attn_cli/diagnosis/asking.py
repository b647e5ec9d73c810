"""Asking: questions drawn for a plan, of sizes, masks and score sizes that a probe wants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.draws import uniform
from attn_cli.core.masks import BoolArray
from attn_cli.diagnosis.drawing import Parameters, draw, exact
from attn_cli.diagnosis.meaning import ask, own_mask
from attn_cli.diagnosis.plan import HEADED, MaskSpec, Plan
from attn_cli.diagnosis.question import Question
from attn_cli.errors import InputError

Array = NDArray[Any]

VISIBLE = 0.6  # of the pairs of a drawn mask


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a probe chooses: B, L and S (None: as L), and, where no layer fixes them, the heads and
    the widths of q, k and of v."""

    batch: int = 2
    queries: int = 5
    keys: int | None = None
    heads: int = 3
    width: int = 8
    value_width: int | None = None


def draw_question(
    plan: Plan,
    parameters: Parameters,
    sizes: Sizes,
    *,
    name: str,
    seed: int = 0,
    size: float = 1.0,
    layout: str | None = None,
    masked: bool = False,
    same_values: bool = False,
    steps: Sequence[int] = (),
    whole: bool = False,
) -> Question:
    """A question of normal numbers of standard deviation `size`, exact in every precision.

    `masked` gives it a drawn mask of the plan's kind (or bias), in which every query sees a key;
    `same_values` gives keys and values the same sequence; `whole` draws whole numbers. Where the
    layout has no batch, there is one item. Raises InputError where the plan takes no such question.
    """
    layout = layout or plan.call.layouts[0]
    B = 1 if layout in ("LD", "HLD") else sizes.batch
    L, S = sizes.queries, sizes.keys or sizes.queries
    if L != S and not plan.call.lengths_may_differ and not steps:
        raise InputError("the plan says that the lengths of queries and keys do not differ")
    if sizes.value_width not in (None, sizes.width) and not plan.call.widths_may_differ:
        raise InputError("the plan does not say that v may be of another width than q and k")
    shapes = _shapes(plan, parameters, sizes, layout, (B, L, S))
    given = _draw_given(shapes, seed, size, whole=whole, same_values=same_values)
    keep = bias = None
    spec = plan.call.mask
    if masked and spec is not None:
        if spec.means == "bias":
            bias = draw_bias(spec, _score_shape(plan, given, layout), seed)
        else:
            own = own_mask(plan.intent, L, S, steps)
            keep = draw_mask(spec, (B, L, S), own, seed)
    return ask(
        plan,
        parameters,
        given,
        name=name,
        layout=layout,
        keep=keep,
        bias=bias,
        steps=steps,
        left_padded=spec is not None and spec.kind == "keep_pad_left",
    )


def _draw_given(
    shapes: dict[str, tuple[int, ...]], seed: int, size: float, *, whole: bool, same_values: bool
) -> dict[str, Array]:
    given = {}
    for stream, (role, shape) in enumerate(shapes.items()):
        drawn = draw(seed, stream, shape, spread=size)
        given[role] = np.round(drawn * 3) if whole else drawn
    if same_values and "k" in given and given["v"].shape == given["k"].shape:
        given["v"] = given["k"]
    return given


def draw_mask(spec: MaskSpec, shape: tuple[int, int, int], own: BoolArray, seed: int) -> BoolArray:
    """A mask (B | 1, 1, L | 1, S) of the axes that the kind has, True = may attend.

    Every query sees a key that the code's own mask, `own` (L, S), lets it see as well; with padding
    on the left, every query that is no padding.
    """
    B, L, S = shape
    if "L" in spec.axes:
        items = B if "B" in spec.axes else 1
        keep = uniform(seed, 2001, (items, L, S)) < VISIBLE
        best = np.where(own, uniform(seed, 2002, (items, L, S)), -1).argmax(-1)
        np.put_along_axis(keep, best[..., None], True, axis=-1)
        return keep[:, None]
    # Items of different lengths, the first one whole.
    pads = [0] + [1 + (seed + item) % max(1, S - 1) for item in range(1, B)]
    pads = [min(pad, S - 1) for pad in pads]
    k_pos = np.arange(S)
    left = spec.kind == "keep_pad_left"
    rows = [k_pos >= pad if left else k_pos < S - pad for pad in pads]
    return np.stack(rows)[:, None, None, :]


def draw_bias(spec: MaskSpec, shape: tuple[int, int, int, int], seed: int) -> Array:
    """Numbers to add to the scores, over the axes that the kind has."""
    axes = tuple(n if letter in spec.axes else 1 for letter, n in zip("BHLS", shape, strict=True))
    return exact(draw(seed, 50, axes))


def _score_shape(plan: Plan, given: dict[str, Array], layout: str) -> tuple[int, int, int, int]:
    q = given["q"] if "q" in given else given["x"]
    k = given.get("k", given.get("context", q))
    if layout in HEADED:
        return (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    return (q.shape[0], plan.intent.heads or 1, q.shape[1], k.shape[1])


def _shapes(
    plan: Plan, parameters: Parameters, sizes: Sizes, layout: str, lengths: tuple[int, int, int]
) -> dict[str, tuple[int, ...]]:
    """Role → the shape of its array."""
    B, L, S = lengths
    layer = parameters.projections
    roles = [role for role in plan.call.roles if role in ("q", "k", "v", "x", "context")]
    if layer is not None:
        widths = {"q": layer.w_q, "x": layer.w_q, "k": layer.w_k, "context": layer.w_k}
        widths["v"] = layer.w_v
        own = {role: len(widths[role]) for role in roles}
        return {role: (B, L if role in "qx" else S, own[role]) for role in roles}
    heads = plan.intent.heads or (sizes.heads if layout in HEADED else 1)
    kv_heads = plan.intent.kv_heads or heads
    if heads % kv_heads:
        heads = 2 * kv_heads
    width = plan.intent.head_dim or sizes.width
    value_width = sizes.value_width or width
    counts = {"q": heads, "x": heads, "k": kv_heads, "v": kv_heads, "context": heads}
    found: dict[str, tuple[int, ...]] = {}
    for role in roles:
        n, d = (L if role in "qx" else S), (value_width if role == "v" else width)
        headed = layout in HEADED
        found[role] = (B, counts[role], n, d) if headed else (B, n, counts[role] * d)
    return found
