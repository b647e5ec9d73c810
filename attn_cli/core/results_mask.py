"""Frozen result of `attn mask`: what a mask lets through, what its parts do, its code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.findings import Finding
from attn_cli.core.results_fills import FillsResult
from attn_cli.core.settings import Align

Counts = NDArray[np.int64]
Shares = NDArray[np.float64]
Verb = Literal["hides", "shows"]

ROWS_LISTED = 10_000  # rows that JSON lists
SIGNS = "#+."  # a cell that is visible, visible in part, hidden


@dataclass(frozen=True, slots=True, eq=False)
class MaskItem:
    """One batch item and head of a mask.

    `rows` (R,) are the queries that were counted, all of them where the count is exact, and
    `keys` (R,) how many keys each sees. `shares` (rows, columns) is the visible share of each cell
    of the picture, from 0 to 1.
    """

    batch: int
    head: int
    visible: int
    total: int
    rows: Counts
    keys: Counts
    shares: Shares

    @property
    def empty(self) -> Counts:
        """The counted queries that see no key."""
        empty: Counts = self.rows[self.keys == 0]
        return empty

    @property
    def picture(self) -> list[str]:
        """One line a row of cells: # visible, . hidden, + a cell that is both."""
        kinds = np.where(self.shares == 1, 0, np.where(self.shares == 0, 2, 1))
        return ["".join(SIGNS[kind] for kind in line) for line in kinds.tolist()]

    def to_dict(self) -> dict[str, Any]:
        return {
            "batch": self.batch,
            "head": self.head,
            "visible": self.visible,
            "total": self.total,
            "keys_per_row": keys_per_row([self]),
            "empty_rows": int((self.keys == 0).sum()),
            "picture": self.picture,
        }


@dataclass(frozen=True, slots=True)
class MaskPart:
    """One part of an expression. `verb` says what it does in the whole: hides pairs, or shows them.

    `alone` pairs it hides (shows) by itself, and `only` pairs nothing else would: without the
    part the whole would show (hide) them. `depth` counts the parts that it lies in.
    """

    part: str
    depth: int
    verb: Verb
    alone: int
    only: int

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class MaskMatch:
    """A known mask that an array is equal to, as it stands or after a change that is named.

    `align` is None where the mask does not depend on it. `shift` is how far queries stand from
    where they should; `polarity` how the array must be read; `swapped` whether queries and keys
    have changed places, or the axes are others than were read. `words` say it in a sentence.
    """

    expression: str
    align: Align | None
    shift: int
    polarity: Literal["keep", "hidden"]
    swapped: bool
    words: str
    where: str = ""  # the items and heads that are equal to it; "" for all

    @property
    def as_it_stands(self) -> bool:
        return self.shift == 0 and self.polarity == "keep" and not self.swapped

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class MaskFile:
    """Somebody's mask as it was read; `fills`: the values that hide → what they are called."""

    source: str
    name: str | None  # of the array, where the file names its arrays
    dtype: str
    shape: tuple[int, ...]
    axes: tuple[str, ...]
    kind: Literal["bool", "0/1", "additive"]
    polarity: Literal["keep", "hidden"]  # what True or 1 means; of an additive mask, keep
    sha256: str
    fills: Mapping[str, str] = field(default_factory=dict)
    matches: tuple[MaskMatch, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__slots__[:8]}
        return {
            **plain,
            "shape": list(self.shape),
            "axes": list(self.axes),
            "fills": dict(self.fills),
            "matches": [match.to_dict() for match in self.matches],
        }


@dataclass(frozen=True, slots=True, eq=False)
class MaskResult:
    """Everything that `attn mask` knows of one mask; query i stands at position `q_offset` + i.

    Where not `exact`, the numbers are estimated from the rows that the items hold.
    """

    expression: str | None
    file: MaskFile | None
    batch: int
    heads: int
    queries: int
    keys: int
    align: Align | None
    q_offset: int
    exact: bool
    items: tuple[MaskItem, ...]
    query_ranges: tuple[range, ...]
    key_ranges: tuple[range, ...]
    parts: tuple[MaskPart, ...] = ()
    code: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    fills: FillsResult | None = None

    @property
    def visible(self) -> int:
        return sum(item.visible for item in self.items)

    @property
    def total(self) -> int:
        return sum(item.total for item in self.items)

    @property
    def blocks(self) -> bool:
        """Whether a cell of the picture stands for more than one pair."""
        return len(self.query_ranges[0]) * len(self.key_ranges[0]) > 1

    def to_dict(self) -> dict[str, Any]:
        """The object of `--json`, schema attn.mask/1."""
        rows = [(item, at) for item in self.items for at in range(len(item.rows))]
        empty = [(item, at) for item, at in rows if item.keys[at] == 0]
        return {
            "schema": "attn.mask/1",
            "expression": self.expression,
            "file": None if self.file is None else self.file.to_dict(),
            "batch": self.batch,
            "heads": self.heads,
            "queries": self.queries,
            "keys": self.keys,
            "align": self.align,
            "q_offset": self.q_offset,
            "exact": self.exact,
            "visible": self.visible,
            "total": self.total,
            "keys_per_row": keys_per_row(self.items),
            "empty_rows": [self._row(*row) for row in islice(empty, ROWS_LISTED)],
            "empty_rows_total": len(empty),
            "parts": [part.to_dict() for part in self.parts],
            "picture": self.items[0].picture,
            "picture_cell": [len(self.query_ranges[0]), len(self.key_ranges[0])],
            "items": [item.to_dict() for item in self.items],
            "rows": [self._row(*row) for row in islice(rows, ROWS_LISTED)],
            "rows_total": len(rows),
            "code": dict(self.code),
            "findings": [finding.to_dict() for finding in self.findings],
            "fills": None if self.fills is None else self.fills.to_dict(),
        }

    def _row(self, item: MaskItem, at: int) -> dict[str, Any]:
        query = int(item.rows[at])
        return {
            "batch": item.batch,
            "head": item.head,
            "query": query,
            "position": query + self.q_offset,
            "keys": int(item.keys[at]),
        }


def keys_per_row(items: list[MaskItem] | tuple[MaskItem, ...]) -> dict[str, Any]:
    """The least, the mean and the greatest number of keys that a row sees."""
    keys = np.concatenate([item.keys for item in items])
    return {"min": int(keys.min()), "mean": float(keys.mean()), "max": int(keys.max())}
