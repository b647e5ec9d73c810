"""Engine `tiled`: attention tile by tile; context, lse and every row statistic without an L × S."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attn_cli.core.around import Around
from attn_cli.core.engine import Ask, Capabilities, Progress
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.recorder import Recorder
from attn_cli.core.slicing import PartOfBias, PartOfMask
from attn_cli.core.statistics import RowSums
from attn_cli.core.trace import GIVEN_STAGES, TopKeys, Trace
from attn_cli.tiled.kernel import Tiled, tile_bytes, tiled_attention
from attn_cli.torch_arrays import shared_tensor, to_numpy, usable_device

Array = NDArray[Any]

STAGES = frozenset((*GIVEN_STAGES, "context", "merged", "output"))


class TiledEngine:
    """One pass over the keys in tiles: context, lse, statistics and best keys of every row.

    No array grows with L × S; tiles that the mask empties are never touched. Hidden keys take no
    part, an empty row has context 0. In float16 and bfloat16 products come back rounded, softmax
    and sums are float32, and float16 scales q first. Projections, rotations and the output around
    it are numpy's (`core/around.py`).
    """

    name = "tiled"
    can = Capabilities(
        stages=STAGES,
        dtypes=("float64", "float32", "float16", "bfloat16"),
        devices=("any",),
        gradients=False,
        copies=0,
        tiles=True,
        memory=lambda inputs, ask: working_bytes(inputs, ask),
    )

    def run(self, inputs: AttentionInputs, ask: Ask) -> Trace:
        device = usable_device(ask.device, ask.dtype)
        recorder = Recorder(self.name, inputs, ask, STAGES)
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            for batch in range(inputs.shape[0]):
                around = Around(inputs, batch, recorder, dense=False)
                made = _attend(around, ask, device)
                around.after(to_numpy(made.context[0]))
                rows, top, received = _rows(made, aligned=inputs.q_offset is not None)
                recorder.finish_rows(rows, top=top, received=received)
        return recorder.trace()


def _attend(around: Around, ask: Ask, device: torch.device) -> Tiled:
    """One batch item through the kernel."""
    inputs, batch, dtype = around.inputs, around.batch, getattr(torch, ask.dtype)
    q, k, v = (shared_tensor(array, device, dtype)[None] for array in around.before())

    def item(array: Array | None) -> Tensor | None:
        if array is None:
            return None
        own = array[batch : batch + 1] if array.ndim == 4 and len(array) > 1 else array
        return shared_tensor(own)

    mask, positions = inputs.mask, inputs.position_bias
    return tiled_attention(
        q,
        k,
        v,
        mask=None if mask is None else PartOfMask(mask, batch, 0),
        additive=item(inputs.additive),
        bias=item(inputs.bias),
        position_bias=None if positions is None else PartOfBias(positions, batch, 0),
        scale=inputs.effective_scale,
        softcap=inputs.softcap,
        sinks=None if inputs.sinks is None else shared_tensor(inputs.sinks),
        q_offset=inputs.q_offset or 0,
        terms={name: g for statistic in ask.stats for name, g in statistic.terms.items()},
        top=ask.top,
        received=ask.received,
        block=ask.block,
        progress=_progress(inputs, batch, ask),
    )


def _progress(inputs: AttentionInputs, batch: int, ask: Ask) -> Progress | None:
    """Rows of all heads and items."""
    tell, (items, heads, queries, _) = ask.progress, inputs.shape
    if tell is None:
        return None
    each = heads * queries
    return lambda done, total: tell(batch * each + done, items * each)


def _rows(made: Tiled, *, aligned: bool) -> tuple[RowSums, TopKeys | None, Array | None]:
    """The only item's rows (H, L), best keys (H, L, K) and what keys receive (H, S)."""
    rows, top, received = made.rows, None, None
    sums = RowSums(
        **{name: to_numpy(getattr(rows, name)[0]) for name in (*rows.NUMBERS, "visible", "empty")},
        expected={name: to_numpy(value[0]) for name, value in rows.expected.items()},
        aligned=aligned,
    )
    if made.top_keys is not None and made.top_weights is not None:
        weights = to_numpy(made.top_weights[0]).astype(np.float64)
        top = TopKeys(to_numpy(made.top_keys[0]), weights)
    if made.received is not None:
        received = to_numpy(made.received[0])
    return sums, top, received


def working_bytes(inputs: AttentionInputs, ask: Ask) -> int:
    """What a run takes beside its inputs: the output, the rows, and the tiles in work."""
    batch, heads, queries, keys = inputs.shape
    d_k, d_v = inputs.q.shape[3], inputs.v.shape[3]
    size = 8 if ask.dtype == "float64" else 4
    terms = sum(len(statistic.terms) for statistic in ask.stats)
    row = size * (2 * d_v + 5 + terms) + 9 + ask.top * (8 + size)
    workers = torch.get_num_threads() if ask.device == "cpu" else 1  # each with a head of its own
    shared = keys * (d_k + d_v + 2) * size * workers + (8 * heads * keys if ask.received else 0)
    return int(
        batch * heads * queries * row
        + shared
        + tile_bytes(inputs.shape, size, ask.block, device=ask.device.split(":")[0])
    )


ENGINE = TiledEngine()
