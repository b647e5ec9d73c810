"""Full view: one head of a model's call as the question of `attn run`, and the answer.

The question is what the model's attention was given, widened to float64; the answer is the numpy
engine's. So every stage can be shown, and the context is held against the model's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs, Labels
from attn_cli.core.masks import BoolArray
from attn_cli.core.results import InputSummary, RunResult
from attn_cli.core.results_model import HeadView
from attn_cli.core.settings import Settings
from attn_cli.errors import UnsupportedError
from attn_cli.masks.file import Stored
from attn_cli.recognize.reading import Reading
from attn_cli.workflows.model.full_shapes import shapes_around
from attn_cli.workflows.model.masks import ReadMask
from attn_cli.workflows.run import RunOptions, run_reading

if TYPE_CHECKING:
    from attn_cli.models.hf.around import ModuleStep
    from attn_cli.models.hf.call_keeper import KeptCall

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Question:
    """One head of one batch item of a kept call; `rows` (L',) are its queries that are tokens."""

    call: KeptCall
    head: int
    item: int
    rows: NDArray[np.int64]
    mask: ReadMask
    source: str
    query_labels: tuple[str, ...] | None
    key_labels: tuple[str, ...] | None
    before: Sequence[ModuleStep] = ()
    after: Sequence[ModuleStep] = ()

    @property
    def seen(self) -> bool:
        """Whether the call was seen at its softmax: q, k and v are then unknown."""
        return "masked" in self.call.arrays

    def part(self, name: str) -> Array | None:
        """The head's rows of an array that broadcasts to (B, H, L, S), as (1, 1, l, s) float64."""
        array = self.call.arrays.get(name)
        return None if array is None else self._part(array).astype(np.float64)

    def visible(self) -> BoolArray | None:
        """(1, 1, L', S), None where everything is visible."""
        if self.mask.visible is None:
            return None
        part = self._part(self.mask.visible)
        return np.broadcast_to(part, (1, 1, self.rows.size, self.call.facts.keys))

    def _part(self, array: Array) -> Array:
        four = array.reshape((1,) * (4 - array.ndim) + array.shape)
        for axis, index in ((0, self.item), (1, self.head)):
            four = four.take([0 if four.shape[axis] == 1 else index], axis)
        return four if four.shape[2] == 1 else four[:, :, self.rows]


def head_view(
    question: Question, queries: tuple[int, ...] | None, *, listed: bool, every: bool = False
) -> HeadView:
    """The head's run; `queries` narrow its rows, `listed` makes the rows of JSON as well, `every`
    all of them.

    UnsupportedError where sinks differ from row to row.
    """
    inputs = _softmax_inputs(question) if question.seen else _inputs(question)
    options = RunOptions(queries_shown=queries, all_rows=every)
    if listed:
        options = replace(options, parts=options.parts | {"json"})
    reading = Reading(inputs, _summary(question, inputs), _settings(question, inputs))
    run = run_reading(reading, options, keep=frozenset({"context"}))
    placed = _placed(run, question.head)
    return HeadView(
        facts=question.call.facts,
        item=question.item,
        run=replace(placed, shapes=shapes_around(question, run)),
        context_gap=_gap(question, run),
    )


def _placed(run: RunResult, head: int) -> RunResult:
    """The run of one head with the number that the head has in its model."""
    return replace(
        run,
        rows=tuple(replace(row, head=head) for row in run.rows),
        shown_rows=tuple(replace(s, row=replace(s.row, head=head)) for s in run.shown_rows),
        heads=tuple(replace(each, head=head) for each in run.heads),
        views=tuple(replace(view, head=head) for view in run.views),
        findings=tuple(
            replace(f, where=replace(f.where, head=head)) if f.where.head is not None else f
            for f in run.findings
        ),
        chosen={**run.chosen, "head": (head,)},
    )


def _inputs(question: Question) -> AttentionInputs:
    """q, k, v and all that is added."""
    call, item, head = question.call, question.item, question.head
    facts, mask = call.facts, call.arrays.get("mask")
    kv = head // (facts.heads // (facts.kv_heads or facts.heads))
    boolean = mask is None or mask.dtype == bool
    visible = question.visible() if boolean else None
    q, k, v = (call.arrays[name].astype(np.float64) for name in ("q", "k", "v"))
    return AttentionInputs(
        q=q[item : item + 1, [head]][:, :, question.rows],
        k=k[item : item + 1, [kv]],
        v=v[item : item + 1, [kv]],
        mask=None if visible is None else Stored(visible, _offset(question) or 0),
        additive=None if boolean else question.part("mask"),
        bias=question.part("position_bias"),
        scale=None if is_plain(call) else call.scaling,
        softcap=facts.softcap,
        sinks=_sinks(question),
        q_offset=_offset(question),
        labels=_labels(question),
    )


def is_plain(call: KeptCall) -> bool:
    """Whether the scale is 1/√d_k, up to its rounding."""
    width = call.facts.d_k
    return width is not None and math.isclose(call.scaling, width**-0.5, rel_tol=1e-7)


def _softmax_inputs(question: Question) -> AttentionInputs:
    """A call that was seen at its softmax: the masked scores are all there is of its scores.

    They go in as an additive mask over scores of 0.
    """
    masked = question.part("masked")
    assert masked is not None
    return AttentionInputs(
        q=np.zeros((1, 1, masked.shape[2], 1)),
        k=np.zeros((1, 1, masked.shape[3], 1)),
        v=np.zeros((1, 1, masked.shape[3], 1)),
        additive=masked,
        scale=1.0,
        q_offset=_offset(question),
        labels=_labels(question),
    )


def _sinks(question: Question) -> Array | None:
    sinks = question.call.arrays.get("sinks")
    if sinks is None:
        return None
    facts = question.call.facts
    if sinks.size != facts.heads:
        raise UnsupportedError(
            f"{facts.place} has a sink for every row, which the full view cannot show",
            hint="leave --head out: the table of heads has its figures",
        )
    return sinks.reshape(facts.heads)[[question.head]].astype(np.float64)


def _offset(question: Question) -> int | None:
    start = question.call.facts.q_offset
    return None if start is None else start + int(question.rows[0])


def _labels(question: Question) -> Labels | None:
    queries, keys = question.query_labels, question.key_labels
    if queries is None and keys is None:
        return None
    facts = question.call.facts
    queries = tuple(map(str, range(facts.queries))) if queries is None else queries
    keys = tuple(map(str, range(facts.keys))) if keys is None else keys
    return Labels((tuple(queries[row] for row in question.rows),), (keys,))


def _summary(question: Question, inputs: AttentionInputs) -> InputSummary:
    facts, (_, _, queries, keys) = question.call.facts, inputs.shape
    return InputSummary(
        source=question.source,
        format="model",
        kind="q, k, v",
        batch=1,
        queries=queries,
        keys=keys,
        d_model=None,
        d_k=facts.d_k or 0,
        d_v=facts.d_v or 0,
        precision=question.call.dtypes["masked" if question.seen else "q"],
        sha256=None,
        tokens=inputs.labels is not None,
    )


def _settings(question: Question, inputs: AttentionInputs) -> Settings:
    return Settings(
        heads=1,
        kv_heads=1,
        scale=question.call.scaling,
        softcap=question.call.facts.softcap,
        mask=question.mask.expression if inputs.masks else None,
        align=None,
        layout="bhld",
    )


def _gap(question: Question, run: RunResult) -> float:
    """How far the model's context is from this run's."""
    own = question.call.arrays.get("context")
    if own is None or question.seen:
        return float("nan")
    mine = run.trace["context"][0, 0]
    there = own[question.item, question.head, question.rows].astype(np.float64)
    return float(np.abs(there - mine).max())
