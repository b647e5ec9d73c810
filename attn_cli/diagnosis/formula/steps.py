"""The steps of attention, in their order, each a function of the work so far."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.layer import split_heads
from attn_cli.diagnosis.formula.work import Step, Work
from attn_cli.diagnosis.meaning import own_mask
from attn_cli.diagnosis.plan import HEADED

Array = NDArray[Any]


def sources(work: Work) -> None:
    """What is projected: token vectors, or q, k and v themselves."""
    given = {name: work.arithmetic.cast(array) for name, array in work.question.given.items()}
    layer = work.setting.parameters.projections
    if layer is not None:
        for name in ("w_q", "w_k", "w_v", "w_o", "b_q", "b_k", "b_v", "b_o"):
            matrix = getattr(layer, name)
            work.matrices[name] = None if matrix is None else work.arithmetic.cast(matrix)
    if "x" in given:
        work.x_q = given["x"]
        work.x_k = work.x_v = given.get("context", given["x"])
    else:
        work.x_q, work.x_k, work.x_v = given["q"], given["k"], given["v"]


def positions(work: Work) -> None:
    """The positions' table is added to the token vectors; padding on the left does not count."""
    table = work.setting.parameters.positions
    if table is None:
        return
    work.x_q = work.x_q + work.arithmetic.cast(table[place(work)])
    if "context" not in work.question.given:
        work.x_k = work.x_v = work.x_q


def place(work: Work) -> Array:
    """(B | 1, L): the place of every token."""
    spec, keep = work.setting.mask, work.question.keep
    if spec is not None and spec.kind == "keep_pad_left" and keep is not None:
        counted: Array = np.maximum(keep[:, 0, 0].astype(int).cumsum(-1) - 1, 0)
        return counted
    return np.arange(work.x_q.shape[1])[None]


def project(work: Work) -> None:
    """flat q, k, v (B, n, H·d) = x · W + b."""
    for letter in "qkv":
        x = getattr(work, f"x_{letter}")
        setattr(work, f"flat_{letter}", linear(work, x, letter))


def linear(work: Work, x: Array, letter: str) -> Array:
    """x · W + b with the matrix of q, k, v or o; x itself where there is none."""
    matrix, bias = work.matrices.get(f"w_{letter}"), work.matrices.get(f"b_{letter}")
    if matrix is None:
        return x
    made = work.arithmetic.matmul(x, matrix)
    return made if bias is None else made + bias


def split(work: Work) -> None:
    """flat → (B, heads, n, d), head 0 first."""
    for letter in "qkv":
        flat = getattr(work, f"flat_{letter}")
        headed = work.question.layout in HEADED and not work.setting.projected
        count = head_count(work, letter)
        setattr(work, letter, flat if headed else split_heads(flat, count))


def head_count(work: Work, letter: str) -> int:
    return work.heads if letter == "q" else work.question.inputs.kv_heads


def rotate(work: Work) -> None:
    """q and k turned by their positions."""
    if (rotation := work.question.inputs.rotation) is None:
        return
    start = work.question.inputs.q_offset or 0
    work.q = rotation.rotate(work.q, np.arange(work.q.shape[2]) + start)
    work.k = rotation.rotate(work.k, np.arange(work.k.shape[2]))


def group(work: Work) -> None:
    """Key/value heads repeated for their groups of query heads."""
    count = work.q.shape[1] // work.k.shape[1]
    work.k, work.v = work.k.repeat(count, 1), work.v.repeat(count, 1)


def own(work: Work) -> None:
    """The code's own mask, as it is meant."""
    if work.setting.own_mask or work.question.steps:
        L, S = work.lengths
        seen = own_mask(work.setting.plan.intent, L, S, work.question.steps)
        work.own = seen[None, None]


def passed(work: Work) -> None:
    """The mask that the code is given."""
    work.passed = work.question.keep


def scores(work: Work) -> None:
    """q · kᵀ."""
    work.scores = work.arithmetic.matmul(work.q, work.k.swapaxes(-2, -1))


def scale(work: Work) -> None:
    """× the scale."""
    multiply(work, work.scale)


def multiply(work: Work, factor: float) -> None:
    """The scores times a factor."""
    work.scores = work.scores * work.scores.dtype.type(factor)


def cap(work: Work) -> None:
    """c · tanh(scores / c) where there is a softcap."""
    if (limit := work.question.inputs.softcap) is not None:
        limit = work.scores.dtype.type(limit)
        work.scores = limit * np.tanh(work.scores / limit)


def bias(work: Work) -> None:
    """+ the bias that is given, + that of the positions."""
    for array in biases(work):
        work.scores = work.scores + array


def biases(work: Work) -> list[Array]:
    """What is added to the scaled scores."""
    found = []
    if work.question.bias is not None:
        found.append(work.arithmetic.cast(work.question.bias))
    if (made := position_bias(work)) is not None:
        found.append(made)
    return found


def position_bias(work: Work) -> Array | None:
    """What the positions add, (1, H, L, S); None where they add nothing."""
    inputs = work.question.inputs
    if inputs.position_bias is None:
        return None
    L, S = work.lengths
    h = np.arange(work.heads).reshape(1, -1, 1, 1)
    q_pos = np.asarray(inputs.query_positions).reshape(1, 1, -1, 1)
    made = inputs.position_bias(
        np.zeros((1, 1, 1, 1), int), h, q_pos, np.arange(S).reshape(1, 1, 1, -1)
    )
    return work.arithmetic.cast(np.broadcast_to(made, (1, work.heads, L, S)))


def hide(work: Work) -> None:
    """−∞ where a mask hides the key."""
    for seen in (work.own, work.passed):
        if seen is not None:
            put(work, seen, -np.inf)


def put(work: Work, seen: Array, value: float) -> None:
    """`value` in the place of the scores that `seen` hides; ValueError where the axes differ."""
    full = np.broadcast_to(seen, work.scores.shape)
    work.scores = np.where(full, work.scores, work.scores.dtype.type(value))


def softmax(work: Work) -> None:
    """exp(scores − max) / Σ over the keys, a sink's logit in the sum where there is one."""
    work.loose = np.isneginf(work.scores).all(-1)
    top = work.scores.max(-1, keepdims=True)
    sink = sinks(work)
    if sink is not None:
        top = np.maximum(top, sink)
    top = np.where(np.isneginf(top), work.scores.dtype.type(0), top)
    e = np.exp(work.scores - top)
    total = work.arithmetic.total(e)
    if sink is not None:
        total = total + np.exp(sink - top)
    work.weights = e / np.where(work.loose[..., None], 1, total).astype(e.dtype)


def sinks(work: Work) -> Array | None:
    """(1, H, 1, 1), or None."""
    held = work.question.inputs.sinks
    return None if held is None else work.arithmetic.cast(held).reshape(1, -1, 1, 1)


def late(work: Work) -> None:
    """What happens to the weights before they are used: nothing. They are what is given back."""
    work.returned = work.weights


def mix(work: Work) -> None:
    """weights · v."""
    work.context = work.arithmetic.matmul(work.weights, work.v)


def merge(work: Work) -> None:
    """The heads side by side, head 0 first, where the code has token vectors."""
    if work.question.inputs.x is not None:
        batch, heads, length, width = work.context.shape
        work.merged = work.context.swapaxes(1, 2).reshape(batch, length, heads * width)


def out(work: Work) -> None:
    """merged · W_o + b_o where there is one."""
    if work.merged is None:
        work.output = work.context
    else:
        work.output = linear(work, work.merged, "o")


def result(work: Work) -> None:
    """What is given back: the output as it is."""


STEPS: dict[str, Step] = {
    step.__name__: step
    for step in (
        sources,
        positions,
        project,
        split,
        rotate,
        group,
        own,
        passed,
        scores,
        scale,
        cap,
        bias,
        hide,
        softmax,
        late,
        mix,
        merge,
        out,
        result,
    )
}
