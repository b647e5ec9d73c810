"""Comparing two models on the same tokens: which layers part, and whose own doing it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attn_cli.core.compare import Verdict
from attn_cli.core.model_calls import CallFacts, CallPlace, LayerCoverage, ModelCoverage
from attn_cli.core.results_model_diff import LAYER_STAGES, LayerDiff, Own, StageGap
from attn_cli.models.hf.inputs import ModelInputs
from attn_cli.models.hf.loaded import LoadedModel
from attn_cli.models.hf.ways.alone import (
    WHOLE,
    Alone,
    Key,
    Record,
    measured,
    rows_first,
)
from attn_cli.models.hf.ways.feeding import Entered, fed, kept_inputs
from attn_cli.models.hf.ways.gaps import Gap, call_gaps, comparable, tensor_gap
from attn_cli.models.hf.ways.holding import Seen
from attn_cli.models.hf.ways.pairing import Pairs, paired
from attn_cli.models.hf.ways.running import layer_paths, run

Array = NDArray[Any]
Stages = dict[Key, dict[str, StageGap]]  # by the left side's key


@dataclass(slots=True, eq=False)
class OneSide:
    """One model, what it reads and what is known of its layers; then its plain run."""

    loaded: LoadedModel
    inputs: ModelInputs
    coverage: ModelCoverage
    entered: Entered = field(default_factory=dict)

    @property
    def layers(self) -> tuple[str, ...]:
        return layer_paths(self.coverage)

    def plain(self) -> Alone:
        """The run as it is, with its budgets; `entered` holds what its layers were given."""
        record = Record()
        with kept_inputs(self.loaded.model, self.layers, self.entered):
            run(self.loaded, self.inputs, self.layers, record)
        return measured(self.loaded, self.inputs, self.layers, record)

    def step_by_step(self, given: Entered, record: Record | None = None) -> Alone:
        """The run with every layer given `given`, and the budgets of one layer alone."""
        around = partial(fed, self.loaded.model, self.layers, given)
        if record is None:
            record = Record()
            with around():
                run(self.loaded, self.inputs, self.layers, record)
        return measured(self.loaded, self.inputs, self.layers, record, around)


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """The layers of both sides, and the output."""

    layers: tuple[LayerDiff, ...]
    output: StageGap | None
    output_fault: Own | None


def compare_models(left: OneSide, right: OneSide, seen: Seen) -> Compared:
    """Both run on the same tokens, every stage within the sum of both sides' budgets.

    Where some layer is different the right side runs again with every layer given what entered the
    left side's: a layer that still differs does so by itself, any other one has inherited it.
    """
    ours, theirs = left.plain(), right.plain()
    pairs = paired(ours.record, theirs.record)
    stages = _held(ours, theirs, pairs, seen)
    _add_inputs(stages, (left, right), pairs, seen)
    fault: Stages | None = None
    if any(gap.verdict == "different" for each in stages.values() for gap in each.values()):
        given = {r[1]: left.entered[k[1]] for k, r in pairs if k[1] in left.entered}
        step = left.step_by_step(left.entered, ours.record)
        fault = _held(step, right.step_by_step(given), pairs, seen)
    layers = tuple(_layers(left.coverage, pairs, stages, fault))
    name = next((key for key in stages if key[0] == "output"), None)
    if name is None:
        return Compared(layers, None, None)
    output = stages[name]["output"]
    return Compared(layers, output, _output_fault(output, name, layers, fault))


def _held(ours: Alone, theirs: Alone, pairs: Pairs, seen: Seen) -> Stages:
    found: Stages = {}
    for mine, other in pairs:
        gaps: dict[str, list[Gap]] = {}
        for gap in _gaps(ours.record, theirs.record, mine, other):
            gaps.setdefault(gap.stage, []).append(gap)
        found[mine] = {
            stage: _stage(parts, mine, ours.budgets, theirs.budgets[other, stage], seen)
            for stage, parts in gaps.items()
        } or _shapes(ours.record, theirs.record, mine, other)
    return found


def _gaps(ours: Record, theirs: Record, mine: Key, other: Key) -> Iterator[Gap]:
    if mine[0] == "call":
        alone, seen = ours.calls[mine], theirs.calls[other]
        if comparable(alone, seen, WHOLE):
            yield from call_gaps(alone, seen, WHOLE)
        return
    a, b = ours.tensors[mine], theirs.tensors[other]
    if a.shape == b.shape:
        stage = "layer output" if mine[0] == "layer" else "output"
        yield tensor_gap(stage, rows_first(a), rows_first(b), 0)


def _stage(
    parts: list[Gap],
    key: Key,
    ours: Mapping[tuple[Key, str], Array],
    theirs: Array,
    seen: Seen,
) -> StageGap:
    far = np.concatenate([part.far for part in parts], 1)
    stage, first = parts[0].stage, parts[0].first
    budget = (ours[key, stage] + theirs)[:, None]
    beyond = far > budget
    if beyond.any():
        row = int(beyond.any(0).argmax())
        head = int(np.where(beyond[:, row], far[:, row], -1).argmax())
    else:
        head, row = (int(i) for i in np.unravel_index(far.argmax(), far.shape))
    return StageGap(
        verdict=_verdict(far, beyond),
        max_abs=float(far.max(initial=0.0)),
        budget=float(budget[head, 0]),
        head=head if key[0] == "call" else None,
        position=first + row,
        token=seen.token(key, first + row, stage),
    )


def _shapes(ours: Record, theirs: Record, mine: Key, other: Key) -> dict[str, StageGap]:
    """The first tensor of a pair whose shapes are not alike; such are not compared."""
    if mine[0] != "call":
        a, b = tuple(ours.tensors[mine].shape), tuple(theirs.tensors[other].shape)
        stage = "layer output" if mine[0] == "layer" else "output"
        return {stage: StageGap(verdict="different", shapes=(a, b))}
    one, two = ours.calls[mine], theirs.calls[other]
    for name in ("q", "k", "v", "weights"):
        x, y = getattr(one, name), getattr(two, name)
        if x is not None and y is not None and x.shape != y.shape:
            shapes = tuple(x.shape), tuple(y.shape)
            return {name: StageGap(verdict="different", shapes=shapes)}
    return {}


def _add_inputs(stages: Stages, sides: tuple[OneSide, OneSide], pairs: Pairs, seen: Seen) -> None:
    """What enters the first layer of each stack: token vectors that are no layer's doing."""
    stacks: set[str] = set()
    for mine, other in pairs:
        if mine[0] != "layer":
            continue
        stack = mine[1].rpartition(".")[0]
        a, b = (s.entered.get(key[1], {}) for s, key in zip(sides, (mine, other), strict=True))
        slot = next((slot for slot in a if slot in b), None)
        if stack in stacks or slot is None:
            continue
        stacks.add(stack)
        gap = _entering(sides, a[slot], b[slot])
        if gap.position is not None:
            gap = replace(gap, token=seen.token(mine, gap.position, "input"))
        stages[mine]["input"] = gap


def _entering(sides: tuple[OneSide, OneSide], a: Tensor, b: Tensor) -> StageGap:
    """Vectors that are looked up: 2 units in the last place of each side's largest are rounding."""
    if a.shape != b.shape:
        return StageGap(verdict="different", shapes=(tuple(a.shape), tuple(b.shape)))
    gap = tensor_gap("input", rows_first(a), rows_first(b), 0)
    eps = sum(torch.finfo(getattr(torch, side.loaded.dtype)).eps for side in sides)
    budget = 2 * eps * float(gap.size.max(initial=0.0))
    far = gap.far[0]
    beyond = far > budget
    row = int(beyond.argmax() if beyond.any() else far.argmax())
    return StageGap(
        verdict=_verdict(far, beyond),
        max_abs=float(far.max(initial=0.0)),
        budget=budget,
        position=row,
    )


def _verdict(far: Array, beyond: Array) -> Verdict:
    if beyond.any():
        return "different"
    return "rounding" if far.any() else "identical"


def _layers(
    coverage: ModelCoverage, pairs: Pairs, stages: Stages, fault: Stages | None
) -> Iterator[LayerDiff]:
    """One a call; a layer's input and output go with its first and its last call."""
    other = dict(pairs)
    for layer in coverage.layers:
        own = [("call", str(place)) for place in layer.places if ("call", str(place)) in other]
        whole: Key | None = _output(coverage, layer)
        whole = whole if whole in stages else None
        shown = own or ([whole] if whole is not None else [])
        for number, key in enumerate(shown):
            facts = _facts(coverage, key)
            found = dict(stages[key]) if key[0] == "call" else {}
            mine = dict(fault[key]) if fault is not None and key[0] == "call" else {}
            if whole is not None and number == 0 and "input" in stages[whole]:
                found["input"] = stages[whole]["input"]
            if whole is not None and number == len(shown) - 1:
                found["output"] = stages[whole]["layer output"]
                if fault is not None:
                    mine["output"] = fault[whole]["layer output"]
            yield LayerDiff(
                where=key[1],
                right_where=other[key][1],
                stack=layer.stack,
                layer=layer.layer,
                cross=facts is not None and facts.cross,
                stages={name: found[name] for name in LAYER_STAGES if name in found},
                **_blame(found, mine if fault is not None else None),
            )


def _output(coverage: ModelCoverage, layer: LayerCoverage) -> Key:
    """The key of a layer's output: its path, and its turn where layers share one module."""
    alike = [each for each in coverage.layers if each.path == layer.path]
    turn = alike.index(layer)
    return "layer", str(CallPlace(layer.path, turn))


def _facts(coverage: ModelCoverage, key: Key) -> CallFacts | None:
    return next((facts for facts in coverage.calls if str(facts.place) == key[1]), None)


def _blame(found: Mapping[str, StageGap], fault: Mapping[str, StageGap] | None) -> dict[str, Any]:
    """Whether a different layer differs by itself, and from which stage on."""
    if fault is None or not any(gap.verdict == "different" for gap in found.values()):
        return {"fault": None, "own_stage": None}
    if "input" in found and found["input"].verdict == "different":
        return {"fault": "own", "own_stage": "input"}
    for name in LAYER_STAGES:
        if name in fault and fault[name].verdict == "different":
            return {"fault": "own", "own_stage": name}
    return {"fault": "inherited" if fault else None, "own_stage": None}


def _output_fault(
    output: StageGap, key: Key, layers: tuple[LayerDiff, ...], fault: Stages | None
) -> Own | None:
    """The head's own doing where it differs though its layer was right given the left's input."""
    if fault is None or output.verdict != "different" or output.shapes is not None:
        return None
    if fault[key]["output"].verdict != "different":
        return "inherited"
    last = layers[-1] if layers else None
    return None if last is None or last.fault == "own" else "own"
