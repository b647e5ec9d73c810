"""Alarms: the rules of core/model_health.py, each over texts in a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from attn_cli.core.findings import Finding, Place
from attn_cli.core.model_health import (
    ALIKE,
    COLLAPSED,
    PARTED,
    UNIFORM,
    Alarm,
    Health,
    LayerHealth,
    LayerText,
    Rule,
)

# The figure of each rule, and whether it is beyond its limit; NaN is beyond none.
HOLDS: Mapping[Rule, tuple[str, Callable[[float], bool]]] = {
    "collapsed": ("median_entropy", lambda value: value < COLLAPSED),
    "uniform": ("median_entropy", lambda value: value > UNIFORM),
    "alike": ("likeness", lambda value: value > ALIKE),
    "parted": ("kl_share", lambda value: value > PARTED),
}
WORDS: Mapping[Rule, str] = {
    "nonfinite": "weights are NaN or inf",
    "collapsed": "half of the heads give one key nearly everything (median normalised entropy "
    "{value:.3f})",
    "uniform": "half of the heads look at everything alike (median normalised entropy {value:.3f})",
    "alike": "its heads look alike (likeness {value:.2f}; 0 is chance, 1 is equal)",
    "parted": "it looks away from where the layer before looked (KL {value:.2f} times chance)",
}


def alarms_of(layer: LayerHealth, needed: int) -> Iterator[Alarm]:
    """The rules that hold for this layer in `needed` texts in a row."""
    holding: dict[Rule, list[bool]] = {"nonfinite": [not text.finite for text in layer.texts]}
    for rule, (name, beyond) in HOLDS.items():
        holding[rule] = [beyond(float(getattr(text, name))) for text in layer.texts]
    for rule, texts in holding.items():
        first, length = longest_run(texts)
        if length >= max(needed, 1):
            yield Alarm(
                rule=rule,
                place=layer.place,
                stack=layer.stack,
                layer=layer.layer,
                first=first,
                texts=length,
                value=_worst(rule, layer.texts[first : first + length]),
            )


def longest_run(holds: Sequence[bool]) -> tuple[int, int]:
    """Where the first of the longest stretches of True begins, and how long it is.

    >>> longest_run([True, False, True, True])
    (2, 2)
    """
    best, length = (0, 0), 0
    for place, each in enumerate(holds):
        length = length + 1 if each else 0
        if length > best[1]:
            best = (place - length + 1, length)
    return best


def _worst(rule: Rule, texts: Sequence[LayerText]) -> float:
    if rule == "nonfinite":
        return float("nan")
    values = [float(getattr(text, HOLDS[rule][0])) for text in texts]
    return min(values) if rule == "collapsed" else max(values)


def alarm_findings(health: Health) -> Iterator[Finding]:
    """One finding a rule, for all the layers in which it holds; worst layer first."""
    for rule in WORDS:
        found = [alarm for alarm in health.alarms if alarm.rule == rule]
        if not found:
            continue
        worst = _gravest(found)
        stack = f"{worst.stack} " if len({layer.stack for layer in health.layers}) > 1 else ""
        more = f"; and in {len(found) - 1:,} more" if len(found) > 1 else ""
        texts = f"{worst.texts} texts in a row" if worst.texts > 1 else "the text"
        yield Finding(
            f"alarm-{rule}",
            "error",
            f"{stack}layer {worst.layer}, in {texts}: "
            f"{WORDS[rule].format(value=worst.value)}{more}",
            Place(stage="weights", layer=worst.layer, batch=worst.first),
        )


def _gravest(found: Sequence[Alarm]) -> Alarm:
    if found[0].rule == "nonfinite":
        return found[0]
    pick = min if found[0].rule == "collapsed" else max
    return pick(found, key=lambda alarm: alarm.value)
