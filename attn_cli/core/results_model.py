"""Frozen result of `attn model`: what attention does in a real model, per layer and head."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attn_cli.core.compare import Verdict
from attn_cli.core.findings import Finding
from attn_cli.core.model_answers import Answers
from attn_cli.core.model_calls import CallFacts, CallPlace, ModelCoverage, OutputCheck
from attn_cli.core.model_heads import HeadFigures, Role, tower
from attn_cli.core.results import RunResult, json_number
from attn_cli.core.results_model_runs import Runs
from attn_cli.core.trace import Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRead:
    """Which model it is and what it was given.

    `tokens` are the labels of the sequence, a batch item each, padding included; `lengths` counts
    the real ones. `positions` is the longest text that the model takes, None without a limit.
    """

    source: str
    architecture: str
    kind: str
    dtype: str
    device: str
    backend: str
    positions: int | None
    random_weights: bool
    seed: int
    given: str
    batch: int
    tokens: tuple[tuple[str, ...], ...]
    decoder_tokens: tuple[tuple[str, ...], ...]
    lengths: tuple[int, ...]

    @property
    def padded(self) -> bool:
        """Whether an item is shorter than the longest."""
        return any(n < len(t) for n, t in zip(self.lengths, self.tokens, strict=False))

    def to_dict(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__slots__}
        fields |= {
            name: [list(row) for row in fields[name]] for name in ("tokens", "decoder_tokens")
        }
        return {**fields, "lengths": list(self.lengths)}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFigures:
    """One attention call with its heads: what is said of a layer.

    `mask` is the index of its mask in the result. `aligned` says whether queries and keys count
    their positions from one origin: without it there is no distance, previous or own token.
    """

    facts: CallFacts
    heads: tuple[HeadFigures, ...]
    mask: int
    aligned: bool

    @property
    def roles(self) -> Counter[Role]:
        """How many heads do what, the most frequent first."""
        found = Counter(head.role for head in self.heads if head.role is not None)
        return Counter(dict(found.most_common()))

    def mean(self, name: str) -> float:
        """A figure's mean over the heads in which it is defined; NaN where there is none."""
        values = [v for head in self.heads if (v := head.means[name]) == v]  # NaN is not itself
        return sum(values) / len(values) if values else float("nan")

    @property
    def max_score(self) -> float:
        """The largest masked score of any head."""
        return max((head.max_score for head in self.heads), default=float("nan"))

    def total(self, name: str) -> int:
        """A count over all heads: `saturated_rows`, `empty_rows`, `filled_rows`."""
        return sum(int(getattr(head, name)) for head in self.heads)

    def to_dict(self) -> dict[str, Any]:
        names = self.heads[0].means if self.heads else ()
        counts = ("rows", "choice_rows", "saturated_rows", "empty_rows", "filled_rows")
        return {
            "layer": self.facts.layer,
            "stack": tower(self.facts),
            "path": str(self.facts.place),
            "cross": self.facts.cross,
            "heads": self.facts.heads,
            "kv_heads": self.facts.kv_heads,
            "queries": self.facts.queries,
            "keys": self.facts.keys,
            "mask": self.mask,
            **{name: json_number(self.mean(name)) for name in names},
            "max_score": json_number(self.max_score),
            **{name: self.total(name) for name in counts},
            "roles": dict(self.roles),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMask:
    """A mask that some calls really used, recovered from what they were given.

    `words` name it: a known mask as an expression, or that it is none. `kind` is "bool" (True = may
    attend), "additive", "is_causal" (the backend hides later keys by itself), "none", or
    "recovered" (from the masked scores of a model that shows no mask). `fill` is the number that
    hides, by name. `visible` of `total` pairs (item, query, key) are let through; `keys` are the
    least and the most keys of a row that is no padding. `window` is the number that the model
    passes along, None without one.
    """

    words: str
    kind: str
    expression: str | None
    align: str | None
    fill: str
    dtype: str
    shape: tuple[int, ...]
    window: int | None
    batch: int
    queries: int
    keys: int
    visible: int
    total: int
    keys_per_row: tuple[int, int]
    places: tuple[CallPlace, ...]
    where: tuple[tuple[str, int], ...]  # stack and layer of every call

    def to_dict(self) -> dict[str, Any]:
        plain = ("words", "kind", "expression", "align", "fill", "dtype", "window", "batch")
        return {
            **{name: getattr(self, name) for name in plain},
            "shape": list(self.shape),
            "queries": self.queries,
            "keys": self.keys,
            "visible": self.visible,
            "total": self.total,
            "keys_per_row": list(self.keys_per_row),
            "calls": [str(place) for place in self.places],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskProbe:
    """A token that was changed, and whether what must not see it stayed as it was.

    `changed` says what, `held` how many rows had to stay. `place`, `head` and `query` are the first
    attention row that moved, None where none did; `max_abs` the largest movement of what was held
    against each other: lse of every row, and the model's output.
    """

    name: str
    changed: str
    held: int
    verdict: Verdict
    max_abs: float
    place: CallPlace | None = None
    item: int | None = None
    head: int | None = None
    query: int | None = None

    def to_dict(self) -> dict[str, Any]:
        plain = ("name", "changed", "held", "verdict", "item", "head", "query")
        return {
            **{name: getattr(self, name) for name in plain},
            "max_abs": json_number(self.max_abs),
            "path": None if self.place is None else str(self.place),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadView:
    """One layer's attention on one batch item, run again as `attn run` does it.

    `context_gap` is the largest distance between the context of this run (float64) and the
    model's own; NaN where the model shows none.
    """

    facts: CallFacts
    item: int
    run: RunResult
    context_gap: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "path": str(self.facts.place),
            "layer": self.facts.layer,
            "item": self.item,
            "context_gap": json_number(self.context_gap),
            "run": self.run.to_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReport:
    """Everything `attn model` knows; `calls` are those of the chosen layers, with chosen heads.

    `narrowed` says that layers or heads were chosen. `checks` are the probes of the masks; `views`
    the heads that were asked for in full; `answers` those to what was asked beside; `runs` what
    running it again showed.
    """

    read: ModelRead
    coverage: ModelCoverage
    output: OutputCheck
    calls: tuple[CallFigures, ...]
    masks: tuple[ModelMask, ...]
    checks: tuple[MaskProbe, ...]
    findings: tuple[Finding, ...]
    provenance: Provenance
    transformers: str
    narrowed: bool
    fine: tuple[str, ...] = ()
    views: tuple[HeadView, ...] = ()
    saved: tuple[str, ...] = ()
    answers: Answers = field(default_factory=Answers)
    runs: Runs = field(default_factory=Runs)

    @property
    def heads(self) -> tuple[HeadFigures, ...]:
        """Every chosen head of every chosen layer."""
        return tuple(head for call in self.calls for head in call.heads)

    def to_dict(self) -> dict[str, Any]:
        """The object of `--json`, schema attn.model/1."""
        return {
            "schema": "attn.model/1",
            "model": self.read.to_dict(),
            "coverage": self.coverage.to_dict(),
            "output": self.output.to_dict(),
            "layers": [call.to_dict() for call in self.calls],
            "heads": [head.to_dict() for head in self.heads],
            "masks": [mask.to_dict() for mask in self.masks],
            "checks": [check.to_dict() for check in self.checks]
            + [check.to_dict() for check in self.runs.checks],
            "findings": [finding.to_dict() for finding in self.findings],
            "views": [view.to_dict() for view in self.views],
            **self.answers.to_dict(),
            **self.runs.to_dict(),
            "versions": self._versions(),
        }

    def _versions(self) -> Mapping[str, Any]:
        made = self.provenance
        own = {"attn": made.attn, "python": made.python, "numpy": made.numpy, "torch": made.torch}
        return {**own, "transformers": self.transformers}
