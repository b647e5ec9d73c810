"""Findings of running a model again: the ways and layers that part, each in a sentence."""

from __future__ import annotations

from collections.abc import Iterator

from attn_cli.core.findings import Finding, Place, note
from attn_cli.core.results_model_diff import LayerDiff, ModelDiff, StageGap
from attn_cli.core.results_model_runs import Runs
from attn_cli.core.results_model_ways import Parting, WayCheck

NOUNS = {
    "input": "the token vectors",
    "q": "q",
    "k": "k",
    "v": "v",
    "scores": "the scores",
    "weights": "the weights",
    "context": "the context",
    "output": "the layer's output",
    "layer output": "the layer's output",
}


def run_findings(runs: Runs) -> Iterator[Finding]:
    """The notes first, then what parts, in the order in which it was asked."""
    if runs.undecided:
        yield note("no-check", "none of the checks that were asked for applies to this model")
    for check in runs.checks:
        if check.parting is not None:
            yield _way(check, check.parting)
    if runs.diff is not None:
        yield from _diff(runs.diff)


def run_fine(runs: Runs) -> Iterator[str]:
    """What was run and holds; what does not apply is not among it."""
    same = [check for check in runs.checks if check.verdict in ("identical", "rounding")]
    if same:
        exact = all(check.verdict == "identical" for check in same)
        how = "bit for bit" if exact else "within rounding"
        ways = "1 way" if len(same) == 1 else f"{len(same)} ways"
        yield f"{ways} of running the text {'gives' if len(same) == 1 else 'give'} the same, {how}"
    diff = runs.diff
    if diff is not None and diff.verdict != "different":
        exact = all(layer.verdict == "identical" for layer in diff.layers)
        how = "bit for bit" if exact else "within rounding"
        calls = "call" if len(diff.layers) == 1 else "calls"
        yield f"both models agree in {len(diff.layers):,} {calls} of attention, {how}"


def _way(check: WayCheck, at: Parting) -> Finding:
    noun = NOUNS.get(at.stage, "the output")
    place = f"first {noun} of {at.where}" if at.layer is not None else f"first in {at.where}"
    words = [f"{check.words}: not what the text is alone, {place}"]
    if at.head is not None:
        words.append(f"{'key/value ' if at.stage in ('k', 'v') else ''}head {at.head}")
    words.append(_token(at.position, at.token))
    text = ", ".join(words) + f": {at.gap:.3g} off, rounding makes {at.budget:.2g} at most"
    if at.outside > at.budget:
        text += f"; {at.outside:.3g} of the weight goes to tokens that are not the text's"
    stage = at.stage if at.layer is not None else "output"
    query = None if at.stage in ("k", "v") else at.position
    key = at.position if at.stage in ("k", "v") else None
    where = Place(stage, layer=at.layer, batch=at.item, head=at.head, query=query, key=key)
    return Finding(f"{check.name}-differs", "error", text, where)


def _token(position: int, token: str | None) -> str:
    return f"position {position}" + (f" ({token})" if token is not None else "")


def _diff(diff: ModelDiff) -> Iterator[Finding]:
    if diff.tokens:
        yield Finding("tokens-differ", "error", f"{diff.tokens}; nothing behind it is compared")
        return
    if diff.left.to_dict() == diff.right.to_dict() and diff.verdict == "identical":
        yield note("same-side", "both sides are held in the same way: nothing was to be expected")
    if diff.unpaired:
        yield Finding("unpaired-layers", "warning", diff.unpaired)
    inherited = [layer for layer in diff.layers if layer.fault == "inherited"]
    if inherited:
        many = "1 call differs" if len(inherited) == 1 else f"{len(inherited):,} calls differ"
        yield note(
            "inherited",
            f"{many} by what came in alone: given the left side's input of "
            "its layer the right side makes the same",
        )
    if diff.first is not None:
        yield _first(diff.first)
    elif diff.output is not None and diff.output.verdict == "different":
        said = _gap(diff.output)
        yield Finding("models-differ", "error", f"all layers agree and the output does not{said}")


def _first(layer: LayerDiff) -> Finding:
    assert layer.first is not None
    gap = layer.stages[layer.first]
    text = f"the models part first at {layer.where}: {NOUNS[layer.first]}{_gap(gap)}"
    if layer.fault == "own" and layer.own_stage != "input":
        text += "; it is the layer's own doing, for given the left side's input it differs too"
    elif layer.fault == "inherited":
        text += "; the layer itself is alike, and this is what rounding before it makes of it"
    place = Place(layer.first, layer=layer.layer, head=gap.head, query=gap.position)
    return Finding("models-differ", "error", text, place)


def _gap(gap: StageGap) -> str:
    if gap.shapes is not None:
        left, right = ("×".join(map(str, shape)) for shape in gap.shapes)
        return f", of {left} and {right}, which is not compared"
    head = "" if gap.head is None else f", head {gap.head}"
    where = "" if gap.position is None else f", {_token(gap.position, gap.token)}"
    return f"{head}{where}: up to {gap.max_abs:.3g} apart, rounding makes {gap.budget:.2g} at most"
