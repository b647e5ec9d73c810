"""Known masks: is an array one of attn's own, as it stands or after one common mistake?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from attn_cli.core.masks import MaskContext
from attn_cli.core.results_mask import MaskMatch
from attn_cli.core.settings import Align
from attn_cli.errors import InputError
from attn_cli.masks.expression import MaskExpression, parse
from attn_cli.recognize.mask_families import Seen, guesses

Polarity = Literal["keep", "hidden"]

NOTHING = "a mask that hides nothing"
AT_ONCE = 2**22  # pairs that are compared at once
FIRST = 4  # rows from each end, compared before all


@dataclass(frozen=True, slots=True)
class Look:
    """One way to look at an array: what must have gone wrong for it to be a known mask."""

    polarity: Polarity = "keep"
    shift: int = 0
    swapped: bool = False


# By how many things must have gone wrong.
_LOOKS: tuple[tuple[Look, ...], ...] = (
    (Look(),),
    (Look("hidden"), Look(shift=-1), Look(shift=1), Look(swapped=True)),
    (Look("hidden", -1), Look("hidden", 1)),
)


def known_masks(seen: Seen, *, additive: bool) -> tuple[MaskMatch, ...]:
    """What an (L, S) array of True = visible is equal to, the look with least mistakes first.

    `additive` says that it was numbers to add. Empty where it is equal to nothing known.
    """
    found: list[MaskMatch] = []
    for looks in _LOOKS:
        for look in looks:
            found += _matches(seen, look, additive)
        if any(_settles(match) for match in found):
            return tuple(found)
    return tuple(found) or tuple(_far_off(seen, additive))


def _settles(match: MaskMatch) -> bool:
    """Whether nothing more usual is to be expected: exchanged axes and left padding are rare."""
    return not match.swapped and not match.expression.startswith("~")


def _matches(seen: Seen, look: Look, additive: bool) -> Iterator[MaskMatch]:
    """The first guess that holds for each alignment; where alignment matters not, the first."""
    array = _looked_at(seen, look)
    queries, keys = array.shape
    if (look.shift or look.swapped) and (array == array[0]).all():
        return  # where queries stand is nothing to it
    for align, offset in _alignments(queries, keys):
        expression = _first_equal(array, offset + look.shift, look)
        if expression is None or (additive and look != Look() and str(expression) == "none"):
            continue
        compares = expression.compares_positions
        around = [_on_diagonal(array, offset + step) for step in (0, 1)]
        off = _off_by_one(look.shift, *around) if look.shift else ""
        yield _match(expression, align if compares else None, look, additive, off)
        if not compares:
            return


def _on_diagonal(array: Seen, offset: int) -> bool:
    queries, keys = array.shape
    return -queries < offset < keys and bool(array.diagonal(offset).any())


def _looked_at(seen: Seen, look: Look) -> Seen:
    array = seen.T if look.swapped else seen
    return ~array if look.polarity == "hidden" else array


def offset_of(align: Align | None, queries: int, keys: int) -> int:
    """The position of query 0."""
    return keys - queries if align == "lower-right" else 0


def _alignments(queries: int, keys: int) -> list[tuple[Align | None, int]]:
    if queries == keys:
        return [(None, 0)]
    ways: tuple[Align, Align] = ("lower-right", "upper-left")
    return [(align, offset_of(align, queries, keys)) for align in ways]


def _first_equal(seen: Seen, offset: int, look: Look) -> MaskExpression | None:
    queries, keys = seen.shape
    context = MaskContext(1, 1, queries, keys, offset)
    for text in guesses(seen, offset):
        expression = parse(text)
        if (look.shift or look.swapped) and not expression.compares_positions:
            continue  # where queries stand is nothing to it
        if equals(expression, context, seen):
            return expression
    return None


def equals(expression: MaskExpression, context: MaskContext, seen: Seen) -> bool:
    """Whether the expression lets through exactly what is True in (L, S) or (B, H, L, S)."""
    try:
        mask = expression.build(context)
    except InputError:
        return False
    queries = range(context.queries)
    whole = np.broadcast_to(seen, (context.batch, context.heads, *seen.shape[-2:]))
    b = np.arange(context.batch)[:, None, None, None]
    h = np.arange(context.heads)[:, None, None]
    step = max(1, AT_ONCE // (context.keys * context.batch * context.heads))
    ends = [*queries[:FIRST], *queries[-FIRST:]]
    parts: list[Sequence[int]] = [ends, *(queries[at : at + step] for at in queries[::step])]
    for part in parts:
        rows = np.array(part)
        expected = mask(b, h, rows[:, None] + context.q_offset, np.arange(context.keys))
        if (expected != whole[:, :, rows]).any():
            return False
    return True


def _far_off(seen: Seen, additive: bool) -> Iterator[MaskMatch]:
    """Causal with queries that stand further off than one position."""
    for look in (Look(), Look("hidden")):
        array = _looked_at(seen, look)
        if (array == array[0]).all():
            continue
        align, offset = _alignments(*array.shape)[0]
        row = int(array.any(1).argmax())
        shift = int(array[row].sum()) - 1 - row - offset
        context = MaskContext(1, 1, array.shape[0], array.shape[1], offset + shift)
        if equals(parse("causal"), context, array):
            many = abs(shift)
            missing = f"misses the last {many} keys that it should see, its own among them"
            off = (
                f"off by {many}: every query {f'sees {many} later keys' if shift > 0 else missing}"
            )
            yield _match(parse("causal"), align, Look(look.polarity, shift), additive, off)


def _off_by_one(shift: int, own: bool, after: bool) -> str:
    """In words; whether queries see their own key and the one after it."""
    if shift < 0 and not own:
        return "off by one: no query sees itself"
    if shift > 0 and after:
        return "off by one: every query sees the next key"
    return f"off by one: as if every query stood one position {'later' if shift > 0 else 'earlier'}"


def _match(
    expression: MaskExpression, align: Align | None, look: Look, additive: bool, off: str
) -> MaskMatch:
    words = NOTHING if str(expression) == "none" else str(expression)
    words += f", {align}" if align is not None else ""
    if look.polarity == "hidden":
        inverted = " with True = hidden (the polarity of nn.MultiheadAttention)"
        words += " the wrong way round, hiding what it should show" if additive else inverted
    if look.swapped:
        words += " with queries and keys exchanged"
    words += f", {off}" if off else ""
    return MaskMatch(str(expression), align, look.shift, look.polarity, look.swapped, words)
