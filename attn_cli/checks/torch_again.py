"""Every stage over the keys of single rows, by PyTorch's plain operations, a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from attn_cli.checks.numerics.torch_blocks import Block, Way, attend, given
from attn_cli.core.inputs import AttentionInputs
from attn_cli.engines.torch_eager import rotate
from attn_cli.torch_arrays import shared_tensor

Array = NDArray[Any]

AT_ONCE = 1 << 19  # scores in work at a time


class Again:
    """Makes the rows of a run that kept none of their weights once more, in its precision.

    What only one head needs is cast once for all its rows; memory grows with the length.
    """

    def __init__(self, inputs: AttentionInputs, dtype: str) -> None:
        self.inputs, self.dtype = inputs, dtype
        self._made: tuple[int, dict[str, Tensor]] | None = None
        self._head: tuple[tuple[int, int], Tensor] | None = None

    def blocks(self, batch: int, head: int, rows: Array) -> Iterator[Block]:
        """The stages from scores to weights (n, S) of these rows of one head, block by block."""
        kv = head // (self.inputs.shape[1] // self.inputs.kv_heads)
        step = max(1, AT_ONCE // self.inputs.shape[3])
        with torch.no_grad():
            k = self._keys(batch, kv)
            v = k.new_empty((len(k), 0))  # no context is wanted
            for at in range(0, len(rows), step):
                some = rows[at : at + step]
                qkv = self._queries(batch, head, some), k, v
                yield attend(self.inputs, batch, head, some, qkv, Way(dtype=self.dtype))

    def _queries(self, batch: int, head: int, rows: Array) -> Tensor:
        """(n, d_k), turned by their positions where they are."""
        if self.inputs.origin is not None:
            made = self._projected(batch)
            return made.get("q_rotated", made["q"])[head][torch.as_tensor(rows)]
        q = self._tensor(self.inputs.q[batch, head][rows])
        start = self.inputs.q_offset or 0
        return self._turned(q, (start + rows).tolist())

    def _keys(self, batch: int, kv: int) -> Tensor:
        """(S, d_k) of one key/value head, turned by their positions where they are."""
        if self.inputs.origin is not None:
            made = self._projected(batch)
            return made.get("k_rotated", made["k"])[kv]
        if self._head is None or self._head[0] != (batch, kv):
            self._head = None  # one at a time
            k = self._tensor(self.inputs.k[batch, kv])
            self._head = (batch, kv), self._turned(k, self.inputs.key_positions)
        return self._head[1]

    def _tensor(self, array: Array) -> Tensor:
        return shared_tensor(array, dtype=getattr(torch, self.dtype))

    def _turned(self, array: Tensor, positions: Sequence[int]) -> Tensor:
        turn = self.inputs.rotation
        if turn is None:
            return array
        return rotate(array, positions, base=turn.base, interleaved=turn.pairing == "interleaved")

    def _projected(self, batch: int) -> dict[str, Tensor]:
        if self._made is None or self._made[0] != batch:
            self._made = batch, given(self.inputs, batch, self.dtype)
        return self._made[1]
