"""Matching: which known mask a file's mask is, over all its items and heads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from attn_cli.core.masks import MaskContext
from attn_cli.core.results_mask import MaskMatch
from attn_cli.masks.expression import parse
from attn_cli.recognize.known_masks import NOTHING, equals, known_masks, offset_of
from attn_cli.recognize.mask_families import Seen
from attn_cli.recognize.stored_mask import StoredMask

DISTINCT = 16  # items and heads that differ and are all compared
_PADDED = re.compile(r"(?:(?P<base>.+) & )?padding\((?P<length>\d+)\)")

Where = tuple[int, int]


def matches_of(stored: StoredMask) -> tuple[MaskMatch, ...]:
    """The known masks that a file's mask is equal to; none where it is equal to none.

    What all items and heads have in common is said once; what some are, with their place. Of many
    that differ the first are compared.
    """
    additive = stored.file.kind == "additive"
    alike = _alike(stored.visible)
    first = [where[0] for where in alike[:DISTINCT]]
    found = [known_masks(stored.visible[where], additive=additive) for where in first]
    if len(alike) == 1:
        return (*found[0], *_by_item(stored, found[0]))
    padded = _padded(stored.visible, alike, found)
    if padded is not None:
        return (padded,)
    heads = stored.visible.shape[1] > 1
    return tuple(
        replace(match, where=_named(where, heads))
        for where, matches in zip(alike, found, strict=False)
        for match in matches
    )


def _alike(visible: Seen) -> list[list[Where]]:
    """Items and heads grouped by what they let through, in order of appearance."""
    groups: dict[bytes, list[Where]] = {}
    for where in np.ndindex(visible.shape[:2]):
        key = np.packbits(visible[where]).tobytes()
        groups.setdefault(key, []).append((where[0], where[1]))
    return list(groups.values())


def _padded(
    visible: Seen, alike: Sequence[Sequence[Where]], found: Sequence[tuple[MaskMatch, ...]]
) -> MaskMatch | None:
    """One mask with a length for each item, where that is all in which the items differ."""
    batch, heads, queries, keys = visible.shape
    if len(found) < len(alike) or not all(found):
        return None
    of_item: dict[int, MaskMatch] = {}
    for wheres, matches in zip(alike, found, strict=True):
        of_item.update({item: matches[0] for item, _ in wheres})
    first = of_item[0]
    parts = [_split(of_item[item].expression, keys) for item in range(batch)]
    looks = {(m.align, m.shift, m.polarity, m.swapped) for m in of_item.values()}
    if len(looks) > 1 or first.shift or first.swapped or len({base for base, _ in parts}) > 1:
        return None
    padding = f"padding({', '.join(str(length) for _, length in parts)})"
    text = f"{parts[0][0]} & {padding}" if parts[0][0] else padding
    expression = parse(text)
    context = MaskContext(batch, heads, queries, keys, offset_of(first.align, queries, keys))
    if not equals(expression, context, ~visible if first.polarity == "hidden" else visible):
        return None
    alone = NOTHING if first.expression == "none" else first.expression
    words = first.words.replace(alone, text, 1)
    return replace(first, expression=text, words=words)


def _split(expression: str, keys: int) -> tuple[str, int]:
    """An expression without its padding, and the length of that."""
    found = _PADDED.fullmatch(expression)
    if found:
        return found["base"] or "", int(found["length"])
    return ("", keys) if expression == "none" else (expression, keys)


def _by_item(stored: StoredMask, matches: tuple[MaskMatch, ...]) -> Iterator[MaskMatch]:
    """Padding, where nothing else fits and the two axes of the file may be items and keys."""
    if matches or stored.file.axes != ("query", "key"):
        return
    seen = stored.visible[0, 0]
    for array, polarity in ((seen, "keep"), (~seen, "hidden")):
        lengths = array.sum(1)
        if seen.shape[0] > 1 and (array == (np.arange(seen.shape[1]) < lengths[:, None])).all():
            text = f"padding({', '.join(map(str, lengths.tolist()))})"
            hidden = " with True = hidden" if polarity == "hidden" else ""
            words = f"{text}{hidden} if its axes are (batch, key)"
            yield MaskMatch(text, None, 0, "hidden" if hidden else "keep", True, words)


def _named(wheres: Sequence[Where], heads: bool) -> str:
    item, head = wheres[0]
    more = f" and {len(wheres) - 1} more" if len(wheres) > 1 else ""
    return f"item {item}{f', head {head}' if heads else ''}{more}"
