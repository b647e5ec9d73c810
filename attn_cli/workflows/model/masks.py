"""Masks that a model really used: recovered from what its calls were given, named, grouped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attn_cli.core.dump import Dump
from attn_cli.core.findings import Finding
from attn_cli.core.masks import BoolArray
from attn_cli.core.model_calls import CallFacts
from attn_cli.core.model_heads import tower
from attn_cli.core.results_mask import MaskMatch
from attn_cli.core.results_model import ModelMask
from attn_cli.recognize.mask_fills import numbers_of
from attn_cli.recognize.matching import matches_of
from attn_cli.recognize.stored_mask import read_mask

if TYPE_CHECKING:
    from attn_cli.models.hf.mask_keeper import SeenMask

ITEMS = 3  # that have masks of their own and are named
NAMED = 1 << 26  # pairs; a larger mask is counted and not named
ODD = frozenset({"weak-fill", "double-fill", "positive-fill", "nan-in-mask", "inf-in-mask"})


@dataclass(frozen=True, slots=True, eq=False)
class ReadMask:
    """One mask and its name.

    `visible` (b, h, L, S) is what it lets through, with axes of 1 where all are alike; None:
    everything. `fill` is the number that hides, by name.
    """

    visible: BoolArray | None
    words: str
    expression: str | None
    align: str | None
    fill: str
    findings: tuple[Finding, ...] = ()


def read_seen(seen: SeenMask) -> ReadMask:
    """The mask understood: a known one by its expression, else how much it hides."""
    if seen.kind == "none":
        return ReadMask(None, "none: every query sees every key", "none", None, "")
    if seen.kind == "is_causal":
        align = None if seen.queries == seen.keys else "upper-left"
        visible = np.tri(seen.queries, seen.keys, dtype=bool)[None, None]
        words = f"causal{'' if align is None else f', {align}'}"
        return ReadMask(visible, words, "causal", align, "")
    assert seen.array is not None
    full = (*seen.array.shape[:2], seen.queries, seen.keys)
    array = np.broadcast_to(seen.array, full)
    if array.size > NAMED:
        visible = array if array.dtype == bool else ~(array <= -1e4)
        return ReadMask(visible, "too large to be named", None, None, "")
    stored = read_mask(
        Dump("the model's mask", "memory", {"mask": array}, {"mask": seen.dtype}, "")
    )
    matches = matches_of(stored)
    words, match = _named(matches)
    odd = tuple(f for f in stored.findings if f.code in ODD)
    return ReadMask(
        visible=stored.visible,
        words=words,
        expression=None if match is None else match.expression,
        align=None if match is None else match.align,
        fill=" and ".join(stored.file.fills.values()),
        findings=odd,
    )


def _named(matches: Sequence[MaskMatch]) -> tuple[str, MaskMatch | None]:
    """In words, and the match where it is a single one that needs no change."""
    if len(matches) == 1 and not matches[0].where:
        match = matches[0]
        words = "hides nothing" if match.expression == "none" else match.words
        return words, match if match.as_it_stands else None
    if matches and all(match.where for match in matches):
        words = "; ".join(f"{match.where}: {match.words}" for match in matches[:ITEMS])
        return words + ("; …" if len(matches) > ITEMS else ""), None
    return "no mask that attn has a name for", None


def model_masks(
    calls: Sequence[CallFacts],
    seen: Sequence[SeenMask],
    read: Sequence[ReadMask],
    index: Mapping[int, int],
    real: Mapping[int, BoolArray],
) -> Iterator[ModelMask]:
    """Every mask with the calls that used it; `index` maps a call's order to its mask.

    `real` maps a call's order to the rows (B, L) that are no padding.
    """
    for number, (mask, known) in enumerate(zip(seen, read, strict=True)):
        mine = [facts for facts in calls if index[facts.order] == number]
        windows = {facts.window for facts in mine}
        counts = keys_per_row(mask, known, real[mine[0].order])
        visible, total = pairs(mask, known)
        yield ModelMask(
            words=known.words,
            kind=mask.kind,
            expression=known.expression,
            align=known.align,
            fill=known.fill or _called(mask),
            dtype=mask.dtype,
            shape=mask.shape,
            window=windows.pop() if len(windows) == 1 else None,
            batch=mask.batch,
            queries=mask.queries,
            keys=mask.keys,
            visible=visible,
            total=total,
            keys_per_row=counts,
            places=tuple(facts.place for facts in mine),
            where=tuple((tower(facts), facts.layer) for facts in mine),
        )


def _called(mask: SeenMask) -> str:
    """The fill of a mask that was recovered, by name."""
    if mask.fill is None:
        return ""
    return "".join(numbers_of(np.array([mask.fill]), "float32").fills.values())


def keys_per_row(mask: SeenMask, read: ReadMask, real: BoolArray) -> tuple[int, int]:
    """The least and the most keys that a row sees that is no padding."""
    if read.visible is None:
        return mask.keys, mask.keys
    counts = read.visible.sum(-1)  # (b, h, L)
    rows = np.broadcast_to(counts, (real.shape[0], *counts.shape[1:]))
    mine = rows[np.broadcast_to(real[:, None], rows.shape)]
    return (int(mine.min()), int(mine.max())) if mine.size else (0, 0)


def pairs(mask: SeenMask, read: ReadMask) -> tuple[int, int]:
    """How many pairs of an item, a query and a key are let through (by any head), of how many."""
    total = mask.batch * mask.queries * mask.keys
    if read.visible is None:
        return total, total
    seen = read.visible.any(1)  # over heads
    return int(seen.sum()) * (mask.batch // seen.shape[0]), total
