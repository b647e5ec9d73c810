"""The hunt: every stage of a layer in one precision, counted for NaN and ±inf in their order."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attn_cli.checks.numerics.given import GivenArray, given_arrays
from attn_cli.checks.numerics.torch_blocks import (
    Block,
    Way,
    blocks,
    entering,
    given,
    project_out,
    to_float64,
)
from attn_cli.checks.places import axes_of, place_in_words
from attn_cli.core.engine import Progress
from attn_cli.core.findings import Place
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results_numerics import StageCount
from attn_cli.core.rounding import precision
from attn_cli.core.steps import steps
from attn_cli.core.trace import ALL_STAGES, STAGES

Array = NDArray[Any]

INPUTS = "inputs"
OF_KEYS = ("k", "v", "k_rotated")


@dataclass(slots=True)
class Tally:
    """What is not finite in one stage so far."""

    total: int = 0
    nan: int = 0
    inf: int = 0
    hidden: int = 0
    first: tuple[int, ...] | None = None
    value: float = math.nan  # of the first one

    def add(self, stage: Tensor, bad: Array, at: tuple[int, ...], rows: Array | None) -> None:
        """Counts `bad` of a stage that begins at coordinates `at`; `rows` number its first axis."""
        if not bad.any():
            return
        nan = int((torch.isnan(stage).numpy() & bad).sum())
        self.nan, self.inf = self.nan + nan, self.inf + int(bad.sum()) - nan
        if self.first is None:
            where = [int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape)]
            self.value = float(stage[tuple(where)])
            if rows is not None:
                where[0] = int(rows[where[0]])
            self.first = (*at, *where)


@dataclass(slots=True, eq=False)
class Scan:
    """One pass over a layer: a tally a stage, the output, and the largest finite magnitudes."""

    inputs: AttentionInputs
    way: Way
    tallies: dict[str, Tally] = field(default_factory=dict)
    largest: dict[str, float] = field(default_factory=dict)
    outputs: list[Array] = field(default_factory=list)
    fills: int = 0  # finite fills that the precision makes −inf
    empty: int = 0  # rows that see no key
    first_empty: tuple[int, int, int] | None = None
    on_the_way: int = 0  # finite scores whose sum passes the limit on the way
    first_on_the_way: tuple[int, int, int, int] | None = None
    progress: Progress | None = None
    rows: int = 0  # that have been seen

    def see(
        self,
        name: str,
        stage: Tensor,
        at: tuple[int, ...],
        *,
        seen: Array | None = None,
        rows: Array | None = None,
    ) -> None:
        """One stage, or a part of one: `seen` says what of it takes part, None: everything."""
        tally = self.tallies.setdefault(name, Tally())
        sizes = stage.abs()
        largest = float(sizes.max())
        if not math.isfinite(largest):
            finite = torch.isfinite(stage).numpy()
            bad = ~finite if seen is None else ~finite & seen
            if seen is not None:  # −∞ is what hides
                tally.hidden += int((~finite & ~seen & ~torch.isneginf(stage).numpy()).sum())
            tally.add(stage, bad, at, rows)
            largest = float(sizes.nan_to_num(0.0, posinf=0.0).max())
        tally.total += stage.numel()
        self.largest[name] = max(self.largest.get(name, 0.0), largest)

    @property
    def first(self) -> str | None:
        """The first stage with something that is not finite."""
        return next((name for name in ALL_STAGES if self._bad(name)), None)

    def _bad(self, name: str) -> bool:
        tally = self.tallies.get(name)
        return tally is not None and tally.nan + tally.inf > 0

    def bad(self, name: str) -> int:
        """How many numbers of a stage are not finite."""
        tally = self.tallies.get(name)
        return 0 if tally is None else tally.nan + tally.inf

    def counts(self) -> tuple[StageCount, ...]:
        """The stages in the order of the formula."""
        return tuple(self._count(name) for name in ALL_STAGES if name in self.tallies)

    def _count(self, name: str) -> StageCount:
        tally = self.tallies[name]
        place, words = None, ""
        if tally.first is not None:
            place = Place(stage=name, layer=0, **axes_of(name, tally.first))
            words = place_in_words(self.inputs, name, tally.first)
        return StageCount(name, tally.nan, tally.inf, tally.total, place, words, tally.hidden)


def scan(inputs: AttentionInputs, way: Way, *, progress: Progress | None = None) -> Scan:
    """Run the whole layer and tally every stage; `progress` counts rows."""
    found = Scan(inputs, way, progress=progress)
    with torch.no_grad():
        for batch in range(inputs.shape[0]):
            _scan_item(found, batch)
    return found


def _scan_item(found: Scan, batch: int) -> None:
    inputs, way = found.inputs, found.way
    _, heads, queries, _ = inputs.shape
    stages = given(inputs, batch, way.dtype)
    taken = {step.stage for step in steps(inputs, way.dtype)}
    for name in ALL_STAGES:
        made = inputs.origin is not None or name.endswith("_rotated")
        if name in stages and made and name != "x":
            _see_made(found, name, stages[name], batch)
    context = torch.empty(heads, queries, inputs.v.shape[3], dtype=stages["v"].dtype)
    for part in blocks(inputs, batch, entering(stages), way, np.arange(queries)):
        _see_block(found, part, taken)
        context[part.head][torch.as_tensor(part.rows)] = part.stages["context"]
    output = context
    if inputs.x is not None:
        output = context.transpose(0, 1).flatten(1)  # (L, H·d_v)
        found.see("merged", output, (batch,))
        if (weights := inputs.output_projection) is not None:
            output = project_out(output, weights, way.dtype)
            found.see("output", output, (batch,))
    found.outputs.append(to_float64(output))


def _see_made(found: Scan, name: str, stage: Tensor, batch: int) -> None:
    """A stage before the scores; keys that no query sees do not count."""
    seen = None
    if name in OF_KEYS and not bool(torch.isfinite(stage).all()):
        visible = found.inputs.visible(batch)
        if visible is not None:
            by_head = np.asarray(visible.any(1)).reshape(len(stage), -1, visible.shape[-1])
            keys = np.asarray(by_head.any(1))  # (Hkv, S)
            seen = np.broadcast_to(keys[..., None], tuple(stage.shape))
    found.see(name, stage, (batch,), seen=seen)


def _see_block(found: Scan, part: Block, taken: set[str]) -> None:
    at = (part.batch, part.head)
    found.rows += len(part.rows)
    if found.progress is not None:
        found.progress(found.rows, math.prod(found.inputs.shape[:3]))
    empty = ~part.seen.any(-1)
    if empty.any():
        found.empty += int(empty.sum())
        found.first_empty = found.first_empty or (*at, int(part.rows[empty.argmax()]))
    for name in STAGES:
        if name not in taken or (name == "scaled" and found.way.first):
            continue
        seen = None if name == "context" else part.visible
        if name in ("biased", "masked"):
            seen = part.seen & ~_lost_fills(part, name)
        found.see(name, part.stages[name], at, seen=seen, rows=part.rows)
    found.fills += int((_lost_fills(part, "masked") & part.seen).sum())
    if found.way.dtype == "float16":  # the only precision that kernels sum in and that ends early
        _see_sums(found, part)


def _see_sums(found: Scan, part: Block) -> None:
    """Scores that fit although Σ q·k, term by term, passes the limit before it comes back."""
    limit = precision(found.way.dtype).largest
    q, k = part.q.double(), part.k.double()
    finite = torch.isfinite(part.stages["scores"]) & torch.tensor(part.seen)
    if not bool((finite & (q.abs() @ k.abs().mT > limit)).any()):  # what no partial sum exceeds
        return
    passed, partial = torch.zeros_like(finite), torch.zeros(finite.shape, dtype=torch.float64)
    for left, right in zip(q.unbind(-1), k.unbind(-1), strict=True):
        partial += torch.outer(left, right)
        passed |= partial.abs() > limit
    passed &= finite
    if bool(passed.any()):
        found.on_the_way += int(passed.sum())
        query, key = (int(i) for i in passed.nonzero()[0])
        at = (part.batch, part.head, int(part.rows[query]), key)
        found.first_on_the_way = found.first_on_the_way or at


def _lost_fills(part: Block, stage: str) -> Array:
    """Where a fill has become −inf: it hides its key as it should, and is no overflow."""
    lost: Array = torch.isneginf(part.stages[stage]).numpy() & part.filled
    return lost


def count_inputs(inputs: AttentionInputs, arrays: list[GivenArray]) -> StageCount:
    """The stage before all others: what the input itself holds."""
    bad = next((array for array in arrays if array.bad.any()), None)
    nan = sum(int((np.isnan(array.array) & array.bad).sum()) for array in arrays)
    every = sum(int(array.bad.sum()) for array in arrays)
    words = "" if bad is None else f"{bad.label}, {bad.words(inputs)}".removesuffix(", ")
    return StageCount(
        INPUTS,
        nan,
        every - nan,
        sum(array.array.size for array in arrays),
        None if bad is None else bad.place(),
        words,
        sum(int(array.hidden.sum()) for array in arrays),
    )


def look_at_inputs(inputs: AttentionInputs, dtype: str) -> tuple[list[GivenArray], StageCount]:
    """The arrays of the input in a precision, and what of them is not finite."""
    arrays = list(given_arrays(inputs, dtype))
    return arrays, count_inputs(inputs, arrays)
