"""Linking: the numbers that a step of an explanation takes are those that the lines above show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Fields = Mapping[str, Any]
Shown = Mapping[Any, str | None]

BEFORE_SOFTMAX = ("scores", "scaled", "softcapped", "biased", "masked")


def linked(explanation: Fields) -> None:
    """Every step of every head takes up what stands above it, digit for digit."""
    contexts: dict[int, Shown] = {}
    shared = steps_of(explanation, None)
    for head in explanation["heads"]:
        steps = {**shared, **steps_of(explanation, head)}
        q = link_query(steps)
        if "weights" in steps:
            last = link_scores(steps, q)
            link_softmax(steps, last)
            taken(steps["context"], "a", shown(steps["weights"]))
        contexts[head] = shown(steps["context"])
    link_output(shared, contexts)


def steps_of(explanation: Fields, head: int | None) -> dict[str, Fields]:
    return {
        step["stage"]: step
        for step in explanation["steps"]
        if step["head"] == head and step["operation"] != "hide"
    }


def shown(step: Fields) -> Shown:
    """Index, or the label where there is none → what stands there."""
    return {
        line["label"] if line["index"] is None else line["index"]: line["result"]
        for line in step["lines"]
    }


def taken(step: Fields, name: str, above: Shown) -> None:
    """The terms of a step, by what they run along, are the numbers above."""
    for line in step["lines"]:
        for term in line["terms"]:
            assert term[name] == above[term["at"]], (step["stage"], line["label"])


def carried_on(step: Fields, above: Shown) -> None:
    """The first term of each line is the number above it."""
    for line in step["lines"]:
        entry = line["label"] if line["index"] is None else line["index"]
        if entry != "others":
            assert line["terms"][0]["a"] == above[entry], (step["stage"], line["label"])


def link_query(steps: Mapping[str, Fields]) -> Shown:
    if "x_positions" in steps:
        carried_on(steps["x_positions"], shown(steps["x"]))
    if steps["q"]["operation"] == "dot":
        taken(steps["q"], "a", shown(steps[steps["q"]["a"]]))
    if "q_rotated" not in steps:
        return shown(steps["q"])
    for name in ("cos", "sin"):
        carried_on(steps[name], shown(steps["angle"]))
    taken(steps["q_rotated"], "a", shown(steps["q"]))
    return shown(steps["q_rotated"])


def link_scores(steps: Mapping[str, Fields], q: Shown) -> Shown:
    taken(steps["scores"], "a", q)
    above = shown(steps["scores"])
    for stage in BEFORE_SOFTMAX[1:]:
        if stage in steps:
            carried_on(steps[stage], above)
            above = shown(steps[stage])
    if "scale" in steps:
        (root,) = steps["scale"]["lines"]
        assert {line["terms"][0]["b"] for line in steps["scaled"]["lines"]} == {root["result"]}
    return above


def link_softmax(steps: Mapping[str, Fields], masked: Shown) -> None:
    (top,), (divisor,), (row_sum,) = (
        steps[name]["lines"] for name in ("maximum", "sum", "row_sum")
    )
    scores = {term.get("at", "sink"): term["a"] for term in top["terms"]}
    assert {key: score for key, score in scores.items() if key != "sink"} == masked
    carried_on(steps["shifted"], scores)
    carried_on(steps["exp"], shown(steps["shifted"]))
    assert {line["terms"][0]["b"] for line in steps["shifted"]["lines"]} == {top["result"]}
    powers = {term.get("at", "sink"): term["a"] for term in divisor["terms"]}
    assert powers == shown(steps["exp"])
    carried_on(steps["weights"], powers)
    assert {line["terms"][0]["b"] for line in steps["weights"]["lines"]} == {divisor["result"]}
    weights = shown(steps["weights"])
    if divisor["rest"]:
        others = steps["weights"]["lines"][-1]
        assert others["terms"][0]["a"] == divisor["rest"]["sum"]
        assert row_sum["rest"]["sum"] == weights["others"]
    taken(steps["row_sum"], "a", weights)


def link_output(shared: Mapping[str, Fields], contexts: Mapping[int, Shown]) -> None:
    if "merged" not in shared:
        return
    merged = shown(shared["merged"])
    width = len(next(iter(contexts.values())))
    for head, context in contexts.items():
        assert [merged[head * width + i] for i in range(width)] == list(context.values())
    if shared["output"]["operation"] == "dot":
        taken(shared["output"], "a", merged)
    else:
        assert shown(shared["output"]) == merged
