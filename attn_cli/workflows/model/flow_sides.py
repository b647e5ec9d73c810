"""Sides of a flow: `FROM -> TO`, each positions, a pattern, or a pattern within positions."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from attn_cli.core.masks import BoolArray
from attn_cli.errors import InputError
from attn_cli.workflows.model.token_patterns import LONGEST, compiled, limited

OPTION = "--flow"
ARROW = "->"
HINT = 'for example "35-:/[A-Za-z]/ -> 1-33": RANGE, /REGEX/ or RANGE:/REGEX/, counted from 0'
_RANGES = r"[\d,\s-]+"
_SIDE = re.compile(rf"(?P<ranges>{_RANGES})?(?P<colon>:)?(?:/(?P<pattern>.+)/)?", re.DOTALL)
_RANGE = re.compile(r"\s*(\d{1,9})\s*(?:(-)\s*(\d{1,9})?\s*)?")

Range = tuple[int, int | None]  # both included; None: to the end


@dataclass(frozen=True, slots=True)
class Side:
    """Tokens at these positions whose text the pattern is found in; None: any."""

    text: str
    ranges: tuple[Range, ...] | None
    pattern: re.Pattern[str] | None

    def at(self, position: int) -> bool:
        """Whether the position is among the side's."""
        return self.ranges is None or any(
            first <= position and (last is None or position <= last) for first, last in self.ranges
        )

    def marks(self, labels: tuple[tuple[str, ...], ...]) -> BoolArray:
        """(B, n): the tokens of each item that belong to this side."""
        found: dict[str, bool] = {}
        source = "" if self.pattern is None else self.pattern.pattern
        with limited(source, OPTION):
            for token in {token for row in labels for token in row}:
                found[token] = self.pattern is None or bool(self.pattern.search(token[:LONGEST]))
        rows = [[found[t] and self.at(p) for p, t in enumerate(row)] for row in labels]
        return np.array(rows, bool)


def flow_sides(text: str) -> tuple[Side, Side]:
    """FROM and TO; InputError where the text has another form or a pattern is none."""
    cuts = [at.start() for at in re.finditer(ARROW, text)]
    pairs = [(text[:cut].strip(), text[cut + len(ARROW) :].strip()) for cut in cuts]
    fitting = [pair for pair in pairs if all(map(_is_side, pair))]
    if len(fitting) > 1:
        raise InputError(
            f"{OPTION} {text!r} can be read in {len(fitting)} ways",
            hint="write the arrow inside a pattern as -[>]",
        )
    if not fitting:
        raise InputError(f"{OPTION} {text!r} cannot be read: expected FROM -> TO", hint=HINT)
    source, target = fitting[0]
    return _side(source), _side(target)


def _is_side(text: str) -> bool:
    found = _SIDE.fullmatch(text)
    if found is None or not text:
        return False
    both = bool(found["ranges"] and found["pattern"])
    return both == bool(found["colon"])


def _side(text: str) -> Side:
    found = _SIDE.fullmatch(text)
    assert found is not None
    ranges, pattern = found["ranges"], found["pattern"]
    return Side(
        text,
        None if ranges is None else tuple(_range(part, text) for part in ranges.split(",")),
        None if pattern is None else compiled(pattern, OPTION),
    )


def _range(part: str, side: str) -> Range:
    found = _RANGE.fullmatch(part)
    if found is None:
        raise InputError(
            f"{OPTION} has {part.strip()!r} in {side!r}: expected positions such as 3, 1-33 or 35-"
        )
    first = int(found[1])
    if found[2] is None:
        return first, first
    last = None if found[3] is None else int(found[3])
    if last is not None and last < first:
        raise InputError(f"{OPTION} has the range {first}-{last}, which ends before it begins")
    return first, last
