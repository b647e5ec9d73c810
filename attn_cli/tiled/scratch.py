"""Memory of one worker, used again and again: tiles, queries, context, sums, values of terms.

An array of a tile's size that is made anew is given back to the system each time, and its pages
are found anew: that costs as much as a pass over it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attn_cli.core.statistics import Term

DEPTH = 16  # tiles whose sums wait to be added up together
ALIKE = 4  # tiles of a term's values that are kept


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """Sums of the last tiles, (DEPTH, rows) each, not yet added up; `*_of` have one line a tile.

    A small step costs as much in calls, and in waiting for Python's lock, as a tenth of a product:
    these are written where they stay, and added up once in DEPTH tiles.
    """

    top: Tensor
    total: Tensor
    far: Tensor  # Σ p·(k − the tile's first key)
    shifted: Tensor
    top_of: tuple[Tensor, ...]
    total_of: tuple[Tensor, ...]
    far_of: tuple[Tensor, ...]
    shifted_of: tuple[Tensor, ...]


class Scratch:
    """What a worker needs for tiles of at most `size` (queries, keys), of q and v so wide."""

    def __init__(
        self, size: tuple[int, int], d_k: int, d_v: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        height, width = size
        self._both = torch.empty(2, height * width, dtype=dtype, device=device)
        self._sums = torch.zeros(4, DEPTH, height, dtype=dtype, device=device)
        self.q = torch.empty(height, d_k + 1, dtype=dtype, device=device)
        self.context = torch.empty(height, d_v, dtype=dtype, device=device)
        self.steps = torch.arange(max(height, width), dtype=dtype, device=device)
        self._tiles: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        self._waiting: dict[int, Waiting] = {}
        self._alike: dict[tuple[Term, int, int, int], Tensor] = {}

    def tiles(self, rows: int, keys: int) -> tuple[Tensor, Tensor]:
        """Two tiles (rows, keys), as they were left."""
        if (rows, keys) not in self._tiles:
            scores, powers = self._both[:, : rows * keys].unbind()
            self._tiles[rows, keys] = scores.view(rows, keys), powers.view(rows, keys)
        return self._tiles[rows, keys]

    def waiting(self, rows: int) -> Waiting:
        if rows not in self._waiting:
            top, total, far, shifted = self._sums[:, :, :rows].unbind()
            self._waiting[rows] = Waiting(
                top, total, far, shifted,
                top.unbind(), total.unbind(), far.unbind(), shifted.unbind(),
            )  # fmt: skip
        return self._waiting[rows]

    def by_distance(self, g: Term, queries: range, keys: range) -> Tensor:
        """The values (queries, keys) of a term of k − q, kept for the next tile that lies so."""
        where = (g, keys.start - queries.start, len(queries), len(keys))
        if where not in self._alike:
            if len(self._alike) == ALIKE:
                self._alike.clear()
            q_pos = self.steps[: len(queries), None]
            self._alike[where] = g(q_pos, self.steps[: len(keys)] + where[1]).to(q_pos.dtype)
        return self._alike[where]
