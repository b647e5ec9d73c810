"""Frozen results, one a command, each with to_dict(): what a workflow hands to a renderer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.findings import Finding
from attn_cli.core.inputs import Labels
from attn_cli.core.settings import Settings
from attn_cli.core.trace import Stage, StageShape, Trace

if TYPE_CHECKING:
    from attn_cli.core.results_spread import Spread

Array = NDArray[Any]
Kind = Literal["token vectors", "q, k, v", "model"]


@dataclass(frozen=True, slots=True)
class InputSummary:
    """What was read: `precision` is the file's own; d_model only for token vectors."""

    source: str
    format: str
    kind: Kind
    batch: int
    queries: int
    keys: int
    d_model: int | None
    d_k: int
    d_v: int
    precision: str
    sha256: str | None
    context: str | None = None  # where the second sequence came from, when there is one
    tokens: bool = False  # whether the file named its tokens

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class TopKey:
    """A key that a row looks at, and the weight it gives it."""

    key: int
    token: str
    weight: float


ROW_NUMBERS = (
    "visible_keys",
    "sum",
    "entropy",
    "normalized_entropy",
    "effective_keys",
    "max_weight",
    "mean_distance",
    "first_key_weight",
)


@dataclass(frozen=True, slots=True)
class Row:
    """One query of one head: `numbers` by the names in ROW_NUMBERS, NaN where undefined."""

    batch: int
    head: int
    query: int
    token: str
    numbers: Mapping[str, float]
    top: tuple[TopKey, ...]
    empty: bool
    layer: int = 0

    def to_dict(self) -> dict[str, Any]:
        numbers = {name: json_number(value) for name, value in self.numbers.items()}
        numbers["visible_keys"] = int(self.numbers["visible_keys"])
        return {
            "layer": self.layer,
            "batch": self.batch,
            "head": self.head,
            "query": self.query,
            "token": self.token,
            **numbers,
            "top": [
                {"key": top.key, "token": top.token, "weight": json_number(top.weight)}
                for top in self.top
            ],
            "empty": self.empty,
        }


@dataclass(frozen=True, slots=True)
class ShownRow:
    """A row on the screen and why it is there: "first", what is unusual, or "" where all are."""

    row: Row
    why: str = ""


@dataclass(frozen=True, slots=True)
class HeadRow:
    """One head of one batch item: means over its rows, empty ones left out (and counted)."""

    batch: int
    head: int
    means: Mapping[str, float]  # by the names in ROW_NUMBERS
    mean_cosine: float  # with the other heads; NaN where there is one head
    empty_rows: int
    layer: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "layer": self.layer,
            "batch": self.batch,
            "head": self.head,
            **{name: json_number(value) for name, value in self.means.items()},
            "mean_cosine": json_number(self.mean_cosine),
            "empty_rows": self.empty_rows,
        }


@dataclass(frozen=True, slots=True, eq=False)
class WeightsView:
    """The weights of one head as a picture: one cell a (query, key), or a block of them.

    `cells` (R, C) are weights; for blocks, the mean weight of a block over its visible cells.
    `hidden` (R, C) is True where nothing is visible. `sums` (R,) are row sums (NaN for blocks).
    `query_ranges` and `key_ranges` say which queries and keys a cell covers; labels name them.
    `looked_at` is how many queries a cell is made of where they are a sample of its own, else 0.
    """

    batch: int
    head: int
    cells: Array
    hidden: NDArray[np.bool_]
    sums: Array
    query_ranges: tuple[range, ...]
    key_ranges: tuple[range, ...]
    query_labels: tuple[str, ...]
    key_labels: tuple[str, ...]
    layer: int = 0
    looked_at: int = 0

    @property
    def blocks(self) -> bool:
        """Whether a cell stands for more than one weight."""
        return any(len(cover) > 1 for cover in (*self.query_ranges, *self.key_ranges))


@dataclass(frozen=True, slots=True, eq=False)
class RunResult:
    """Everything `attn run` knows: the trace, what was read, and what is shown of it."""

    input: InputSummary
    settings: Settings
    engine: str
    dtype: str
    device: str
    shapes: tuple[StageShape, ...]
    rows: tuple[Row, ...]  # for JSON: the narrowed rows, at most 10,000 unless all were asked for
    rows_total: int  # how many rows the narrowing left
    shown_rows: tuple[ShownRow, ...]  # for the screen
    heads: tuple[HeadRow, ...]
    views: tuple[WeightsView, ...]
    views_left_out: int
    findings: tuple[Finding, ...]
    values: Mapping[str, Stage]
    trace: Trace
    labels: Labels | None = None  # the tokens, where the file named them
    fine: tuple[str, ...] = ()  # what was checked and holds, in words: "every row sums to 1"
    sum_tolerance: float = 5e-7  # a row's sum this near to 1 is rounding; inf where sinks take part
    chosen: Mapping[str, tuple[int, ...]] = field(
        default_factory=dict
    )  # axis → indices in `values`
    masked: bool = False  # whether anything is masked, be the step shown or not
    spread: Spread | None = None  # of a long run: its rows as a whole

    def to_dict(self) -> dict[str, Any]:
        """The object of `--json`, schema attn.run/1."""
        settings = self.settings.to_dict()
        settings |= {"engine": self.engine, "dtype": self.dtype, "device": self.device}
        fields: dict[str, Any] = {
            "schema": "attn.run/1",
            "input": self.input.to_dict(),
            "settings": settings,
            "shapes": [shape.to_dict() for shape in self.shapes],
            "rows": [row.to_dict() for row in self.rows],
            "heads": [head.to_dict() for head in self.heads],
            "findings": [finding.to_dict() for finding in self.findings],
            "values": {name: json_array(stage.array) for name, stage in self.values.items()},
        }
        if len(self.rows) < self.rows_total:
            fields["rows_total"] = self.rows_total
        if self.spread is not None:
            fields["spread"] = self.spread.to_dict()
        return fields


def json_number(value: float) -> float | str | None:
    """NaN as null, ±inf as "inf" and "-inf"; JSON has no word for them."""
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float(value)


def json_array(array: Array) -> Any:
    """Nested lists of json_number."""
    if np.isfinite(array).all():
        return array.tolist()
    if array.ndim == 1:
        return [json_number(value) for value in array.tolist()]
    return [json_array(part) for part in array]
