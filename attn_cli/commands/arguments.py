"""Arguments: the words of an option as what they mean: lists, names, factors, choices."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from attn_cli.core.registry import unknown_name
from attn_cli.core.settings import Choices, Scale
from attn_cli.errors import InputError

MOST_INDICES = 100_000  # in one list; "0-999999999" is a slip of the finger


def choices(given: Mapping[str, Any]) -> Choices:
    """What was asked for of the computation, out of a command's arguments by name.

    --causal is one more mask; what a command does not take stays unsaid.
    """
    masks = (*(given.get("mask") or ()), *(["causal"] if given.get("causal") else ()))
    both = given.get("relative_bidirectional")
    alike = {field.name for field in fields(Choices)} & given.keys()
    return Choices(
        masks=masks,
        scale=scale_factor(given.get("scale")),
        relative_bidirectional=None if both is None else both == "true",
        **{name: given[name] for name in alike - {"scale", "relative_bidirectional"}},
    )


def indices(text: str | None, option: str) -> tuple[int, ...] | None:
    """Numbers from a list with ranges, in order and once each; None for None.

    >>> indices("5-7,0", "--head")
    (0, 5, 6, 7)
    """
    if text is None:
        return None
    chosen: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", part)
        if not found:
            raise InputError(
                f"{option} has {part.strip()!r}: expected numbers and ranges such as 0,5-8"
            )
        first = int(found[1])
        last = first if found[2] is None else int(found[2])
        if last < first:
            raise InputError(f"{option} has the range {first}-{last}, which ends before it begins")
        if last - first >= MOST_INDICES:
            raise InputError(f"{option} has the range {first}-{last}: at most {MOST_INDICES:,}")
        chosen.update(range(first, last + 1))
    return tuple(sorted(chosen))


def names(text: str | None, kind: str, known: Sequence[str]) -> tuple[str, ...]:
    """Names from a list with commas, in the order of `known`; a wrong one suggests the near one.

    >>> names("b,a", "letter", ("a", "b", "c"))
    ('a', 'b')
    """
    if text is None:
        return ()
    chosen = {part.strip() for part in text.split(",")}
    for name in sorted(chosen.difference(known)):
        raise unknown_name(kind, name, tuple(known))
    return tuple(name for name in known if name in chosen)


def scale_factor(text: str | None) -> Scale | None:
    """The number of --scale, or "none".

    >>> scale_factor("0.5"), scale_factor("none"), scale_factor(None)
    (0.5, 'none', None)
    """
    if text is None:
        return None
    if text == "none":
        return "none"
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not math.isfinite(factor):
        raise InputError(f"--scale is {text!r}: expected a number, or none")
    return factor
