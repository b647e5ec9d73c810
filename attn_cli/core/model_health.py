"""Health: a model's heads over several texts, held against limits that depend on what rows see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from attn_cli.core.model_calls import CallPlace
from attn_cli.core.results import json_number

Rule = Literal["nonfinite", "collapsed", "uniform", "alike", "parted"]

COLLAPSED = 0.05  # normalised entropy of the median head
UNIFORM = 0.99
ALIKE = 0.9  # of the way from chance to equal heads
PARTED = 2.0  # times the KL that chance gives
FLAT = 0.01  # nats of KL by chance
SUSTAINED = 3  # texts in a row

# What raises an alarm, where it holds for a layer in so many texts in a row.
RULES: Mapping[Rule, str] = {
    "nonfinite": "NaN or inf in a row's weights",
    "collapsed": f"half of the heads give one key nearly everything: median normalised entropy "
    f"below {COLLAPSED}",
    "uniform": f"half of the heads look at everything alike: median normalised entropy above "
    f"{UNIFORM}",
    "alike": f"the heads look alike: likeness above {ALIKE}",
    "parted": f"the layer looks away from where the one before looked: KL above {PARTED:g} times "
    "that of chance",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerText:
    """One layer on one text; NaN where a figure is not defined.

    `median_entropy` is the median over the heads of their normalised entropy. `cosine` is the mean
    over pairs of heads and rows, `cosine_chance` the same with each row's weights dealt out at
    random over its visible keys, `likeness` (cosine − chance) ÷ (1 − chance). `kl` is
    KL(layer ‖ layer before) in nats, `kl_chance` the same with the earlier row dealt out at random.
    """

    item: int
    median_entropy: float
    cosine: float
    cosine_chance: float
    likeness: float
    kl: float
    kl_chance: float
    finite: bool

    @property
    def kl_share(self) -> float:
        """KL ÷ that of chance: 0 looks where the layer before looked, 1 anywhere.

        NaN where chance makes less than FLAT: rows so even that any order of them is alike.
        """
        return self.kl / self.kl_chance if self.kl_chance >= FLAT else float("nan")

    def to_dict(self) -> dict[str, Any]:
        numbers = ("median_entropy", "cosine", "cosine_chance", "likeness", "kl", "kl_chance")
        return {
            "item": self.item,
            **{name: json_number(getattr(self, name)) for name in (*numbers, "kl_share")},
            "finite": self.finite,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerHealth:
    """One attention call over the texts. `before` is the layer that KL is held against.

    None where there is none, or where it has another mask or other keys: then every KL is NaN.
    `entropies` are the normalised entropies (heads, texts).
    """

    place: CallPlace
    stack: str
    layer: int
    before: CallPlace | None
    texts: tuple[LayerText, ...]
    entropies: tuple[tuple[float, ...], ...]

    def mean(self, name: str) -> float:
        """A figure's mean over the texts in which it is defined."""
        values = [v for text in self.texts if (v := float(getattr(text, name))) == v]
        return sum(values) / len(values) if values else float("nan")

    def to_dict(self) -> dict[str, Any]:
        return {
            "layer": self.layer,
            "stack": self.stack,
            "path": str(self.place),
            "before": None if self.before is None else str(self.before),
            "texts": [text.to_dict() for text in self.texts],
            "normalized_entropy": [[json_number(v) for v in row] for row in self.entropies],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A rule that held for a layer in the texts from `first` on, `texts` of them in a row.

    `value` is the worst figure among them; NaN for "nonfinite".
    """

    rule: Rule
    place: CallPlace
    stack: str
    layer: int
    first: int
    texts: int
    value: float

    def to_dict(self) -> dict[str, Any]:
        alike = ("rule", "stack", "layer", "first", "texts")
        return {
            **{name: getattr(self, name) for name in alike},
            "path": str(self.place),
            "value": json_number(self.value),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Every layer, and what is alarming. A rule must hold in `needed` of the `texts` in a row."""

    texts: int
    needed: int
    layers: tuple[LayerHealth, ...]
    alarms: tuple[Alarm, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "texts": self.texts,
            "needed": self.needed,
            "rules": dict(RULES),
            "layers": [layer.to_dict() for layer in self.layers],
            "alarms": [alarm.to_dict() for alarm in self.alarms],
        }
