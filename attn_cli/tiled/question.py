"""What is asked of the tiles: tensors, masks and what is added to scores, read piece by piece."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attn_cli.core.inputs import FINITE_FILL
from attn_cli.core.masks import Mask, TileKind
from attn_cli.core.positions import ScoreBias
from attn_cli.core.statistics import Term
from attn_cli.tiled.plan import Kind

Array = NDArray[Any]

NEAR = 2**24  # positions up to here compare in 32 bits, with room for what a mask adds to them


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """softmax(q·kᵀ·scale, capped, biased, masked)·v and what is wanted of its rows.

    q (B, H, L, d_k), k (B, Hkv, S, d_k), v (B, Hkv, S, d_v). `mask` is a function of positions or a
    bool tensor, `additive` and `bias` are tensors; tensors broadcast to (B, H, L, S) and are read
    tile by tile. Query i sits at position `q_offset` + i.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Mask | Tensor | None
    additive: Tensor | None
    bias: Tensor | None
    position_bias: ScoreBias | None
    scale: float
    softcap: float | None
    sinks: Tensor | None
    q_offset: int
    terms: Mapping[str, Term]
    top: int
    received: bool

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, L, S)."""
        return self.q.shape[0], self.q.shape[1], self.q.shape[2], self.k.shape[2]

    @property
    def group(self) -> int:
        """How many query heads read one key/value head."""
        return self.q.shape[1] // self.k.shape[1]

    @property
    def device(self) -> torch.device:
        return self.q.device

    @property
    def wide(self) -> torch.dtype:
        """The precision of softmax and sums: float64 for float64, else float32."""
        return torch.float64 if self.q.dtype == torch.float64 else torch.float32

    @property
    def plain(self) -> bool:
        """Whether scores are q·kᵀ·scale and nothing more, hidden keys aside."""
        return all(
            extra is None for extra in (self.softcap, self.bias, self.position_bias, self.additive)
        )

    def positions(self, rows: range) -> range:
        return range(self.q_offset + rows.start, self.q_offset + rows.stop)

    def kind(self, b: int, h: int) -> Kind | None:
        """What the mask says of tiles of this item and head, by positions; None without a mask."""
        mask = self.mask
        if mask is None:
            return None
        if isinstance(mask, Tensor):
            return lambda queries, keys: self._tensor_kind(mask, b, h, queries, keys)
        return lambda queries, keys: mask.tile(b, h, queries, keys)

    def _tensor_kind(self, mask: Tensor, b: int, h: int, queries: range, keys: range) -> TileKind:
        first = queries.start - self.q_offset
        part = self.part(mask, b, h, range(first, first + len(queries)), keys, spread=False)
        if not bool(part.any()):
            return TileKind.EMPTY
        return TileKind.FULL if bool(part.all()) else TileKind.MIXED

    def part(
        self, array: Tensor, b: int, h: int, rows: range, keys: range, *, spread: bool = True
    ) -> Tensor:
        """The tile of a tensor that broadcasts to the scores: (rows, keys), axes of 1 widened."""
        whole = array[(None,) * (4 - array.ndim)]
        sizes = whole.shape
        tile = whole[b if sizes[0] > 1 else 0, h if sizes[1] > 1 else 0]
        tile = tile[rows.start : rows.stop] if sizes[2] > 1 else tile
        tile = tile[:, keys.start : keys.stop] if sizes[3] > 1 else tile
        tile = tile.to(self.device)
        return tile.expand(len(rows), len(keys)) if spread else tile

    def kept(self, b: int, h: int, rows: range, keys: range) -> Tensor:
        """The mask over a tile, True = may attend."""
        if isinstance(self.mask, Tensor):
            return self.part(self.mask, b, h, rows, keys)
        assert self.mask is not None
        seen = self.mask(*_grid(b, h, self.positions(rows), keys))[0, 0]
        return _tensor(seen, (len(rows), len(keys)), self.device)

    def seen(self, b: int, h: int, rows: range, keys: range, *, full: bool) -> Tensor | None:
        """Which keys of a tile take part; None: all do. `full`: the mask hides none of them."""
        seen = None if full else self.kept(b, h, rows, keys)
        for array in (self.additive, self.bias):
            if array is not None:
                hidden = self.part(array, b, h, rows, keys).isneginf()
                if bool(hidden.any()):
                    seen = ~hidden if seen is None else seen & ~hidden
        return seen

    def counted(self, seen: Tensor | None, b: int, h: int, rows: range, keys: range) -> Tensor:
        """How many keys of the tile each row sees, those under a finite fill left out."""
        if self.additive is not None:
            open_ = ~(self.part(self.additive, b, h, rows, keys) <= FINITE_FILL)
            seen = open_ if seen is None else seen & open_
        if seen is None:
            return torch.full((len(rows),), len(keys), device=self.device)
        return seen.sum(-1)

    def position_biased(self, b: int, h: int, rows: range, keys: range) -> Tensor:
        """What the positions add to a tile of scores."""
        assert self.position_bias is not None
        bias = self.position_bias(*_grid(b, h, self.positions(rows), keys))[0, 0]
        return _tensor(bias, (len(rows), len(keys)), self.device)


def _grid(b: int, h: int, queries: range, keys: range) -> tuple[Array, Array, Array, Array]:
    """Index arrays of a tile that broadcast to (1, 1, queries, keys), as narrow as they may be."""
    near = max(abs(queries.start), queries.stop, keys.stop) < NEAR
    dtype = np.int32 if near else np.int64
    q_pos = np.arange(queries.start, queries.stop, dtype=dtype).reshape(1, 1, -1, 1)
    k_pos = np.arange(keys.start, keys.stop, dtype=dtype).reshape(1, 1, 1, -1)
    return np.full((1, 1, 1, 1), b), np.full((1, 1, 1, 1), h), q_pos, k_pos


def _tensor(array: Array, shape: tuple[int, int], device: torch.device) -> Tensor:
    """An array widened to `shape`, copied only where it must be; for reading."""
    whole = array if array.shape == shape else np.broadcast_to(array, shape)
    return torch.from_numpy(np.require(whole, requirements=["C", "W"])).to(device)
