"""Views: the weights of the chosen heads as pictures, built while the run passes by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.engine import Seen
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results import WeightsView
from attn_cli.masks.counting import spread_rows
from attn_cli.workflows.again import Again
from attn_cli.workflows.selection import Selection

Array = NDArray[Any]

CELLS = 24  # up to this many queries or keys each weight has its own cell
SAMPLE = 1 << 22  # scores of a head that a picture is made of, where the run kept no weights
LEAST_SAMPLE = 2  # queries of every row of cells, however long


@dataclass(slots=True)
class ViewBuilder:
    """Watches the weights of one batch item after another and draws the selected heads."""

    inputs: AttentionInputs
    selection: Selection
    views: list[WeightsView] = field(default_factory=list)
    heads: dict[int, list[int]] = field(init=False)  # what is drawn of each batch item

    def __post_init__(self) -> None:
        self.heads = {}
        for batch, head in self.selection.drawn:
            self.heads.setdefault(batch, []).append(head)

    def __call__(self, stage: Seen) -> None:
        if stage.batch not in self.heads:
            return
        counted = self.inputs.counted(stage.batch)
        for head in self.heads[stage.batch]:
            seen = np.ones(stage.array.shape[1:], bool) if counted is None else counted[head]
            self.views.append(self._picture(stage.batch, head, stage.array[head], seen))

    def _picture(
        self, batch: int, head: int, weights: Array, seen: NDArray[np.bool_]
    ) -> WeightsView:
        queries = list(self.selection.queries)
        weights, seen = weights[queries].astype(np.float64), seen[queries]
        rows, columns = covers(len(queries)), covers(weights.shape[1])
        cells, hidden = block_means(weights, seen, rows, columns)
        single = all(len(cover) == 1 for cover in rows)
        sums = weights.sum(1) if single else np.full(len(rows), np.nan)
        return _view(self.inputs, self.selection, (batch, head), (cells, hidden, sums), 0)


def sampled_views(again: Again, selection: Selection) -> list[WeightsView]:
    """The pictures of a run that kept no weights: of every row of cells a few queries, made again.

    All queries where they are few, so that the picture is the whole one.
    """
    from attn_cli.checks.numerics.torch_blocks import to_float64

    inputs, views = again.inputs, []
    queries = np.array(selection.queries)
    rows, columns = covers(len(queries)), covers(inputs.shape[3])
    each = max(LEAST_SAMPLE, SAMPLE // (inputs.shape[3] * len(rows)))
    chosen = [queries[spread_rows([cover], each)] for cover in rows]
    sampled = len(chosen[0]) if len(chosen[0]) < len(rows[0]) else 0
    starts = [cover.start for cover in columns]
    for batch, head in selection.drawn:
        total, number = np.zeros((2, len(rows), len(columns)))
        sums = np.full(len(rows), np.nan)
        for place, some in enumerate(chosen):
            for block in again.blocks(batch, head, some):
                seen, weights = block.counted, to_float64(block.stages["weights"])
                shown = np.where(seen, weights, 0)
                total[place] += np.add.reduceat(shown, starts, axis=1).sum(0)
                number[place] += np.add.reduceat(seen.astype(np.int64), starts, axis=1).sum(0)
                if len(rows) == len(queries):
                    sums[place] = weights.sum()
        picture = total / np.maximum(number, 1), number == 0, sums
        views.append(_view(inputs, selection, (batch, head), picture, sampled))
    return views


def _view(
    inputs: AttentionInputs,
    selection: Selection,
    pair: tuple[int, int],
    picture: tuple[Array, NDArray[np.bool_], Array],
    looked_at: int,
) -> WeightsView:
    """Cells, hidden ones and row sums of one (batch, head) with what names them."""
    (batch, head), (cells, hidden, sums) = pair, picture
    queries, labels = selection.queries, inputs.labels
    return WeightsView(
        batch=batch,
        head=head,
        cells=cells,
        hidden=hidden,
        sums=sums,
        query_ranges=tuple(
            range(queries[r.start], queries[r.stop - 1] + 1) for r in covers(len(queries))
        ),
        key_ranges=covers(inputs.shape[3]),
        query_labels=labels.query[batch] if labels else (),
        key_labels=labels.key[batch] if labels else (),
        looked_at=looked_at,
    )


def covers(length: int, most: int = CELLS) -> tuple[range, ...]:
    """`length` positions cut into at most `most` equal ranges, the last one perhaps shorter."""
    step = -(-length // most)
    return tuple(range(start, min(start + step, length)) for start in range(0, length, step))


def block_means(
    weights: Array, seen: NDArray[np.bool_], rows: tuple[range, ...], columns: tuple[range, ...]
) -> tuple[Array, NDArray[np.bool_]]:
    """The mean of (L, S) weights over the visible cells of each block, and where there are none."""
    total = _block_sums(np.where(seen, weights, 0), rows, columns)
    number = _block_sums(seen.astype(np.int64), rows, columns)
    return total / np.maximum(number, 1), number == 0


def _block_sums(array: Array, rows: tuple[range, ...], columns: tuple[range, ...]) -> Array:
    by_row = np.add.reduceat(array, [cover.start for cover in rows], axis=0)
    return np.add.reduceat(by_row, [cover.start for cover in columns], axis=1)
