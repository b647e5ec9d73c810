"""Readings of a mask: what of it may be the code's own, and what it was given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attn_cli.core.masks import BoolArray
from attn_cli.diagnosis.plan import Intent, MaskSpec


@dataclass(frozen=True, slots=True, eq=False)
class MaskReading:
    """One way to read which keys are seen: `intent` has what the code hides by itself, `keep` is
    what it is given, with the axes of (B, H, L, S), 1 where it does not depend on one."""

    intent: Intent
    keep: BoolArray | None = None
    spec: MaskSpec | None = None


def readings(seen: BoolArray | None, start: int, *, own_first: bool) -> tuple[MaskReading, ...]:
    """How `seen` (B, H, L, S) may have come about, query 0 at position `start`; None: all seen.

    A triangle may be what the code does by itself or what it was given: people make other mistakes
    with the one than with the other. `own_first` says which is likelier.
    """
    if seen is None or seen.all():
        return (MaskReading(Intent()),)
    given = [MaskReading(Intent(), *_passed(seen))]
    own = list(_own(seen, start))
    return tuple([*own, *given] if own_first else [*given, *own])


def _own(seen: BoolArray, start: int) -> Iterator[MaskReading]:
    """Triangles, windows and both, with what else is hidden as given."""
    L, S = seen.shape[2:]
    if start not in (0, S - L):
        return
    later = np.arange(S)[None, :] - np.arange(L)[:, None] - start
    align = "lower-right" if start == S - L else "upper-left"
    shown = later[seen.any((0, 1))]
    if not shown.size:
        return
    back, ahead = int(-shown.min(initial=0)), int(shown.max(initial=0))
    intents = []
    if ahead <= 0 < later.max():
        intents.append((Intent(causal=True, align=align), later <= 0))
        near = (later <= 0) & (later >= -back)
        if (near != (later <= 0)).any():
            intents.append((Intent(causal=True, align=align, window=back + 1), near))
    else:
        far = max(back, ahead)
        intents.append((Intent(align=align, window=far + 1), abs(later) <= far))
    for intent, own in reversed(intents):
        if (seen == own).all():
            yield MaskReading(intent)
            return
        padding = np.asarray(seen.any((1, 2)))[:, None, None]
        if (seen == (own & padding)).all():
            yield MaskReading(intent, *_passed(np.broadcast_to(padding, seen.shape)))
            return


def _passed(seen: BoolArray) -> tuple[BoolArray, MaskSpec]:
    """The mask with the fewest axes that says the same, and its kind."""
    heads = bool((seen == seen[:, :1]).all())
    items = bool((seen == seen[:1]).all())
    queries = bool((seen == seen[:, :, :1]).all())
    if heads and queries:
        return seen[:, :1, :1], MaskSpec("mask", "keep_pad", "bool")
    if heads and items:
        return seen[:1, :1], MaskSpec("mask", "keep_tt", "bool")
    if heads:
        return seen[:, :1], MaskSpec("mask", "keep_btt", "bool")
    return seen, MaskSpec("mask", "keep_pair_b1", "bool")
