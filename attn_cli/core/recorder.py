"""Recorder: gathers the trace of a run, one batch item and one stage at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.engine import Ask, Seen
from attn_cli.core.findings import Finding
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.provenance import provenance
from attn_cli.core.rows import head_cosine, top_keys
from attn_cli.core.statistics import RowSums
from attn_cli.core.steps import sources, steps
from attn_cli.core.trace import ALL_STAGES, Stage, TopKeys, Trace

Array = NDArray[Any]
Bools = NDArray[np.bool_] | None


class Recorder:
    """Holds what `ask` wants of each stage and lets the rest go.

    An engine shows it the stages of one batch item that it can (`shown`), in the order of the
    formula, then the item's finished rows, or where it has no weights its lse at most; `trace` puts
    the items together. A stage comes without its batch axis. A step that is not taken may be shown
    or not: its stage is the one before it.
    """

    def __init__(
        self,
        engine: str,
        inputs: AttentionInputs,
        ask: Ask,
        shown: frozenset[str] = frozenset(ALL_STAGES),
    ) -> None:
        self.engine, self.inputs, self.ask = engine, inputs, ask
        self.shapes = steps(inputs, ask.dtype, shown)
        self._scores = "scores" in shown
        self._source = sources(inputs, {step.stage for step in self.shapes})
        self._wanted = {self._source[stage] for stage in ask.keep if stage in self._source}
        self._kept: dict[str, Array] = {}
        self._rows: list[RowSums] = []
        self._lse: list[Array] = []
        self._top: list[TopKeys] = []
        self._cosine: list[Array] = []
        self._received: list[Array] = []

    def see(self, batch: int, stage: str, array: Array, visible: Bools) -> None:
        """Show one stage of one batch item to whoever keeps or watches it."""
        for watch in self.ask.watch.get(stage, ()):
            watch(Seen(stage, batch, array, visible))
        if stage in self._wanted:
            if stage not in self._kept:
                self._kept[stage] = np.empty((self.inputs.shape[0], *array.shape), array.dtype)
            self._kept[stage][batch] = array

    def wants(self, stage: str) -> bool:
        """Whether anybody keeps or watches `stage`."""
        return stage in self._wanted or stage in self.ask.watch

    def finish(
        self, batch: int, rows: RowSums, *, masked: Array, weights: Array, visible: Bools
    ) -> None:
        """Record one batch item's rows (H, L), and what needs its whole rows of weights."""
        self._rows.append(rows)
        if self.ask.top:
            self._top.append(top_keys(masked, weights, visible, self.ask.top))
        if self.ask.cosine:
            self._cosine.append(head_cosine(weights, rows.empty))
        if self.ask.received:
            self._received.append(weights.sum(1, dtype=np.float64))
        if self._scores:  # weights alone have no lse
            self._lse.append(rows.lse)
        self._progress(batch)

    def finish_rows(
        self, rows: RowSums, *, top: TopKeys | None = None, received: Array | None = None
    ) -> None:
        """Record one batch item's rows (H, L) of an engine that works in tiles.

        With them come the best keys (H, L, K) and what every key receives (H, S) as far as `ask`
        wants them. The engine tells the progress itself, tile by tile.
        """
        self._rows.append(rows)
        self._lse.append(rows.lse)
        if top is not None:
            self._top.append(top)
        if received is not None:
            self._received.append(received)

    def finish_without_weights(self, batch: int, lse: Array | None = None) -> None:
        """Record that one batch item is done, of whose rows nothing is known but the lse (H, L)."""
        if lse is not None:
            self._lse.append(lse)
        self._progress(batch)

    def _progress(self, batch: int) -> None:
        if self.ask.progress:
            self.ask.progress(batch + 1, self.inputs.shape[0])

    def trace(self, findings: Sequence[Finding] = ()) -> Trace:
        """The trace of all batch items, with what the engine has to say of the run."""
        rows = _stacked(self._rows) if self._rows else None
        return Trace(
            engine=self.engine,
            stages=self.stages(),
            shapes=self.shapes,
            lse=np.stack(self._lse) if self._lse else None,
            empty=_empty(self.inputs) if rows is None else rows.empty,
            stats={s.name: s.finish(rows) for s in self.ask.stats} if rows is not None else {},
            top=_stacked_top(self._top),
            cosine=np.stack(self._cosine) if self._cosine else None,
            provenance=provenance(self.ask.dtype, self.ask.device),
            findings=tuple(findings),
            received=np.stack(self._received) if self._received else None,
        )

    def stages(self) -> dict[str, Stage]:
        """The stages that are kept, of all batch items."""
        return {name: self._stage(name) for name in self._source if name in self.ask.keep}

    def _stage(self, name: str) -> Stage:
        source = self._source[name]
        axes = next(step.axes for step in self.shapes if step.stage == source)
        return Stage(self._kept[source], axes, self.ask.dtype)


def _stacked(items: list[RowSums]) -> RowSums:
    """The rows of every batch item, (B, H, L)."""
    arrays = {
        name: np.stack([getattr(item, name) for item in items])
        for name in ("maximum", "lse", "log_z", "weight_sum", "shifted", "visible", "empty")
    }
    expected = {
        name: np.stack([item.expected[name] for item in items]) for name in items[0].expected
    }
    return RowSums(**arrays, expected=expected, aligned=items[0].aligned)


def _stacked_top(items: list[TopKeys]) -> TopKeys | None:
    if not items:
        return None
    return TopKeys(
        np.stack([item.keys for item in items]), np.stack([item.weights for item in items])
    )


def _empty(inputs: AttentionInputs) -> NDArray[np.bool_]:
    """(B, H, L): the rows that no key takes part in."""
    empty = np.zeros(inputs.shape[:3], bool)
    for batch in range(len(empty)):
        visible = inputs.visible(batch)
        if visible is not None:
            empty[batch] = ~visible.any(-1)
    return empty
