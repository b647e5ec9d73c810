"""movement: how far the rows of a model's output are from what they were."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.masks import BoolArray
from attn_cli.core.model_ablation import Movement
from attn_cli.core.model_flow import TokenPlace

Array = NDArray[Any]

AT_ONCE = 1 << 22  # numbers of an output that are compared at a time


def movement(
    before: Any,
    after: Any,
    rows: BoolArray,
    labels: tuple[tuple[str, ...], ...] | None,
    *,
    logits: bool,
) -> Movement:
    """Of two tensors (…, d) the rows (…) that count; with `logits` KL and the likeliest as well.

    NaN where no row counts, or where a row was 0.
    """
    places = np.argwhere(rows)
    parts = list(_parts(before, after, rows))
    if not parts:
        lost = float("nan")
        return Movement(rows=0, moved=lost, most=lost, where=None, kl=lost, changed=None)
    moved = np.concatenate([_moved(a, b) for a, b in parts])
    farthest = int(np.argmax(moved))
    item, *position = places[farthest].tolist()
    token = "" if labels is None or not position else labels[item][position[0]]
    return Movement(
        rows=len(moved),
        moved=float(moved.mean()),
        most=float(moved[farthest]),
        where=TokenPlace(item, position[0], token) if position else None,
        kl=float(np.concatenate([_kl(a, b) for a, b in parts]).mean()) if logits else float("nan"),
        changed=sum(int((a.argmax(-1) != b.argmax(-1)).sum()) for a, b in parts)
        if logits
        else None,
    )


def _parts(before: Any, after: Any, rows: BoolArray) -> Iterator[tuple[Array, Array]]:
    """The rows in float64, some at a time."""
    from attn_cli.torch_arrays import to_numpy

    places = np.flatnonzero(rows)
    width = before.shape[-1]
    step = max(1, AT_ONCE // width)
    flat = before.reshape(-1, width), after.reshape(-1, width)
    for start in range(0, len(places), step):
        picked = places[start : start + step].tolist()
        a, b = (to_numpy(each[picked]).astype(np.float64) for each in flat)
        yield a, b


def _moved(a: Array, b: Array) -> Array:
    """The length of each difference over that of the row before."""
    length = np.linalg.norm(a, axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.linalg.norm(b - a, axis=-1) / length)


def _kl(a: Array, b: Array) -> Array:
    """KL(before ‖ after) of each row's probabilities, in nats."""
    p, q = _log_softmax(a), _log_softmax(b)
    here = np.exp(p)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(here > 0, here * (p - q), 0.0).sum(-1))


def _log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))
