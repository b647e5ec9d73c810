"""Frozen result of `attn check numerics`: the hunt for NaN, the saturation, the gradients."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from attn_cli.core.findings import Finding, Place
from attn_cli.core.results import InputSummary, json_number
from attn_cli.core.settings import Settings


@dataclass(frozen=True, slots=True)
class StageCount:
    """The NaN and ±inf of one stage that take part; `hidden` are those that no query sees."""

    stage: str
    nan: int
    inf: int
    total: int
    first: Place | None = None
    words: str = ""  # where the first one is
    hidden: int = 0

    @property
    def bad(self) -> int:
        return self.nan + self.inf


@dataclass(frozen=True, slots=True)
class Term:
    """One product of a sum, and the sum up to here, in float64."""

    index: int
    left: float
    right: float
    product: float
    partial: float


@dataclass(frozen=True, slots=True)
class Attempt:
    """A remedy that was run: the first stage that is not finite then, None where none is left.

    `largest` is the largest finite magnitude of the stage that failed before, `bad` how many of its
    numbers are still not finite.
    """

    what: str
    first: str | None
    bad: int
    largest: float


@dataclass(frozen=True, slots=True)
class Culprit:
    """The first number that is not finite: where it is, what made it, why, and what helps.

    `exact` is the same number by float64 arithmetic on the same operands. Of a sum of products,
    `terms` are the first and the decisive ones of `terms_total`, and `passed` is the index at which
    it passes `limit`; of another step `operands` are the named numbers that went into it.
    """

    stage: str
    place: Place
    where: str
    value: float
    exact: float
    limit: float
    cause: str
    words: str
    fix: str
    terms: tuple[Term, ...] = ()
    terms_total: int = 0
    passed: int | None = None
    operands: tuple[tuple[str, float], ...] = ()
    attempts: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True)
class Hunt:
    """Every stage of one layer in one precision, and what made the first non-finite number."""

    layer: int
    dtype: str
    stages: tuple[StageCount, ...]
    culprit: Culprit | None = None
    fills: int = 0  # finite fills that the precision makes −inf
    empty_rows: int = 0  # rows that see no key; `first_empty` says which is the first
    first_empty: Place | None = None
    first_empty_words: str = ""
    on_the_way: int = 0  # finite scores whose sum passes the precision's limit on the way
    first_on_the_way: str = ""

    @property
    def first(self) -> StageCount | None:
        """The first stage in which something that takes part is not finite."""
        return next((stage for stage in self.stages if stage.bad), None)


@dataclass(frozen=True, slots=True)
class Measured:
    """A mean or deviation of what was measured, and its standard error."""

    value: float
    error: float


@dataclass(frozen=True, slots=True)
class Spread:
    """The mean and standard deviation of one stage over the visible pairs.

    `unit` is the deviation of independent unit-variance vectors, `vectors` of independent vectors
    with these features' own means and variances.
    """

    stage: str
    mean: Measured
    deviation: Measured
    unit: float
    vectors: float


@dataclass(frozen=True, slots=True)
class ScaleFigures:
    """What softmax does under one scale, over the rows that have a choice; gradients of a row.

    `gradient_mean` and `gradient_median` are of |∂⟨u, output⟩/∂q| over those rows, u a standard
    normal vector a row.
    """

    scale: float
    label: str
    given: bool
    rows: int
    saturated: Measured
    largest_weight: Measured
    effective_keys: Measured
    gradient_mean: float
    gradient_median: float


@dataclass(frozen=True, slots=True)
class PrecisionFigures:
    """One scale in one precision, really computed there.

    `rows` have a choice and finite weights; `saturated` of them and `weights_above` of the weights
    are above the largest weight that counts. `vanished` of `pairs` exponentials exp(score − max)
    are 0, which happens below `vanishes_below`; `naive_inf` of exp(score) are inf (above
    `naive_above`), and so `naive_lost` rows; `stable_lost` are lost with the maximum subtracted.
    """

    scale: float
    label: str
    given: bool
    dtype: str
    pairs: int
    nonfinite: int
    largest: float
    limit: float
    rows: int
    saturated: int
    weights_above: int
    vanished: int
    vanishes_below: float
    naive_inf: int
    naive_above: float
    naive_lost: int
    stable_lost: int


@dataclass(frozen=True, slots=True)
class Saturation:
    """The saturation of one layer; figures are of `rows_seen` of `rows_total` rows."""

    layer: int
    spreads: tuple[Spread, ...]
    scales: tuple[ScaleFigures, ...]
    precisions: tuple[PrecisionFigures, ...]
    rows_seen: int
    rows_total: int


@dataclass(frozen=True, slots=True)
class GradientCount:
    """The gradient of one array: its NaN and inf, its norm, and in float64 the norm that is right.

    `vanished` are 0 here and not in float64.
    """

    name: str
    nan: int
    inf: int
    total: int
    norm: float
    norm64: float
    vanished: int
    words: str = ""  # where the first bad one is


@dataclass(frozen=True, slots=True)
class Clipping:
    """What clipping to norm 1 makes of gradients that hold NaN or inf, measured."""

    norm: float
    bad_before: int
    nan_after: int
    total: int


@dataclass(frozen=True, slots=True)
class Gradients:
    """One backward pass of a layer from a standard normal cotangent on `rows_seen` output rows."""

    layer: int
    dtype: str
    seed: int
    counts: tuple[GradientCount, ...]
    rows_seen: int
    rows_total: int
    clipping: Clipping | None = None

    @property
    def first(self) -> GradientCount | None:
        return next((count for count in self.counts if count.nan or count.inf), None)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What decides exit code 1: `saturated` is a share of rows, `max_weight` makes a row one.

    A larger share fails unless it comes with a probability above `chance` where `saturated` is
    what is true of all rows.
    """

    saturated: float
    max_weight: float
    chance: float
    allowed: tuple[str, ...] = ()  # codes of findings that do not fail the check


@dataclass(frozen=True, slots=True)
class NumericsResult:
    """Everything that `attn check numerics` knows; `failed` are the codes that make it fail."""

    input: InputSummary
    settings: Settings
    dtype: str
    hunts: tuple[Hunt, ...]
    saturations: tuple[Saturation, ...]
    gradients: tuple[Gradients, ...]
    findings: tuple[Finding, ...]
    failed: tuple[str, ...]
    thresholds: Thresholds
    shown: tuple[int, ...] = (0,)  # the layers that the screen and JSON list

    def to_dict(self) -> dict[str, Any]:
        """The object of `--json`, schema attn.check.numerics/1."""
        return {
            "schema": "attn.check.numerics/1",
            "input": self.input.to_dict(),
            "settings": self.settings.to_dict() | {"dtype": self.dtype},
            "hunt": [_hunt(hunt) for hunt in self.hunts if hunt.layer in self.shown],
            "saturation": [_plain(one) for one in self.saturations if one.layer in self.shown],
            "gradients": [_gradients(one) for one in self.gradients if one.layer in self.shown],
            "findings": [finding.to_dict() for finding in self.findings],
            "failed": list(self.failed),
            "thresholds": _plain(self.thresholds),
        }


def _hunt(hunt: Hunt) -> dict[str, Any]:
    first = hunt.first
    return {"first": None if first is None else first.stage} | _plain(hunt)


def _gradients(gradients: Gradients) -> dict[str, Any]:
    first = gradients.first
    return {"first": None if first is None else first.name} | _plain(gradients)


def _plain(value: Any) -> dict[str, Any]:
    """A dataclass, its tuples and its numbers as JSON has them."""
    return {name: _json(part) for name, part in asdict(value).items()}


def _json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _json(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(part) for part in value]
    return json_number(value) if isinstance(value, float) else value
