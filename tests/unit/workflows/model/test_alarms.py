"""Alarms: each rule at its limit, over texts in a row."""

from __future__ import annotations

from typing import Any

import pytest

from attn_cli.core.model_calls import CallPlace
from attn_cli.core.model_health import Alarm, Health, LayerHealth, LayerText, Rule
from attn_cli.workflows.model.alarms import alarm_findings, alarms_of, longest_run

NAN = float("nan")
HEALTHY: dict[str, Any] = {
    "median_entropy": 0.5,
    "cosine": 0.3,
    "cosine_chance": 0.2,
    "likeness": 0.125,
    "kl": 0.2,
    "kl_chance": 1.0,
    "finite": True,
}


def layer(*texts: dict[str, Any]) -> LayerHealth:
    """A layer that is healthy in each text but for what is said."""
    made = (LayerText(item=n, **{**HEALTHY, **text}) for n, text in enumerate(texts))
    place = CallPlace("layers.3")
    return LayerHealth(place=place, stack="", layer=3, before=None, texts=tuple(made), entropies=())


def rules(*texts: dict[str, Any], needed: int = 1) -> list[Rule]:
    return [alarm.rule for alarm in alarms_of(layer(*texts), needed)]


@pytest.mark.parametrize(
    "text, rule",
    [
        ({"median_entropy": 0.049}, "collapsed"),
        ({"median_entropy": 0.05}, None),
        ({"median_entropy": 0.991}, "uniform"),
        ({"median_entropy": 0.99}, None),
        ({"likeness": 0.91}, "alike"),
        ({"likeness": 0.9}, None),
        ({"kl": 2.01}, "parted"),
        ({"kl": 2.0}, None),
        ({"kl": 0.02, "kl_chance": 0.009}, None),  # too flat to say
        ({"kl": NAN, "kl_chance": NAN}, None),
        ({"median_entropy": NAN, "finite": False}, "nonfinite"),
    ],
)
def test_limits(text: dict[str, Any], rule: Rule | None) -> None:
    assert rules(text) == ([] if rule is None else [rule])


def test_an_alarm_lasts_for_texts_in_a_row() -> None:
    low = {"median_entropy": 0.01}
    assert rules(low, {}, low, {}, low, needed=2) == []
    assert rules(low, {}, low, low, needed=2) == ["collapsed"]
    (alarm,) = alarms_of(layer({}, low, {"median_entropy": 0.02}, low, {}), 3)
    assert (alarm.first, alarm.texts, alarm.value) == (1, 3, 0.01)


def test_longest_run() -> None:
    assert longest_run([]) == (0, 0)
    assert longest_run([False]) == (0, 0)
    assert longest_run([True, True, False, True, True]) == (0, 2)


def test_findings_name_the_gravest_layer() -> None:
    def alarm(number: int, value: float) -> Alarm:
        place = CallPlace(f"layers.{number}")
        return Alarm(
            rule="collapsed", place=place, stack="", layer=number, first=0, texts=3, value=value
        )

    found = Health(texts=3, needed=3, layers=(layer({}),), alarms=(alarm(1, 0.04), alarm(2, 0.01)))
    (finding,) = alarm_findings(found)
    assert finding.code == "alarm-collapsed"
    assert finding.severity == "error"
    assert finding.message.startswith("layer 2, in 3 texts in a row: half of the heads")
    assert finding.message.endswith("(median normalised entropy 0.010); and in 1 more")
