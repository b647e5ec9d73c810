"""ModelResult: what `attn run` knows of a model: a result a layer, and what comes next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any

from attn_cli.core.findings import Finding
from attn_cli.core.results import RunResult, json_array, json_number
from attn_cli.core.results_spread import joined
from attn_cli.core.trace import Trace


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """What kind of model was run; the sizes of a head are in the input's summary."""

    layers: int
    vocabulary: int
    positions: str
    norm: str
    residual: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class NextToken:
    """A token that may come next, and its probability."""

    token: str
    probability: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model expects after one position: the likeliest tokens, the best first.

    `entropy` is that of all their probabilities, in nats. Where a logit is NaN or +inf, `next` is
    empty and `entropy` NaN.
    """

    batch: int
    query: int
    token: str
    entropy: float
    next: tuple[NextToken, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "batch": self.batch,
            "query": self.query,
            "token": self.token,
            "entropy": json_number(self.entropy),
            "next": [
                {"token": one.token, "probability": json_number(one.probability)}
                for one in self.next
            ],
        }


@dataclass(frozen=True, slots=True, eq=False)
class ModelTrace:
    """What a model computed on a text: a trace a layer, and what it expects after each token.

    A layer's stages go from what came into it (`embedded` or `stream`, `x`) to what went on
    (`residual`, `normed`); those of the last one end in `logits` where there is an unembedding.
    `findings` are said of the model as a whole, each layer has its own.
    """

    tokens: tuple[str, ...]
    layers: tuple[Trace, ...]
    predictions: tuple[Prediction, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ModelResult:
    """One result a shown layer, by its number; `predictions` is empty without an unembedding.

    `said` is said of the model as a whole. `elsewhere` are the findings of layers that are not
    shown: they are listed and they count, since what is computed does not depend on what is shown.
    """

    model: ModelSummary
    layers: Mapping[int, RunResult]
    said: tuple[Finding, ...]
    elsewhere: tuple[Finding, ...]
    predictions: tuple[Prediction, ...]

    @property
    def last(self) -> RunResult:
        """The last layer that is shown."""
        return self.layers[max(self.layers)]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything there is to say, of every layer."""
        own = chain.from_iterable(layer.findings for layer in self.layers.values())
        return (*self.said, *own, *self.elsewhere)

    def to_dict(self) -> dict[str, Any]:
        """The object of `--json`, schema attn.run/1: the lists of all layers in one.

        `values` is that of the last layer shown, `values_by_layer` has one such object a layer.
        """
        layers = self.layers.values()
        fields = replace(
            self.last,
            shapes=tuple(chain.from_iterable(layer.shapes for layer in layers)),
            rows=tuple(chain.from_iterable(layer.rows for layer in layers)),
            rows_total=sum(layer.rows_total for layer in layers),
            heads=tuple(chain.from_iterable(layer.heads for layer in layers)),
            findings=self.findings,
            spread=joined(layer.spread for layer in layers),
        ).to_dict()
        fields["values_by_layer"] = [
            {name: json_array(stage.array) for name, stage in layer.values.items()}
            for layer in layers
        ]
        fields["model"] = self.model.to_dict()
        fields["predictions"] = [prediction.to_dict() for prediction in self.predictions]
        return fields
