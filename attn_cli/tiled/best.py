"""The best keys of every row of a block, kept while its tiles pass by."""

from __future__ import annotations

import torch
from torch import Tensor

INF = float("inf")


class Best:
    """The `count` best-scoring visible keys of each row: best first, the earlier among equals.

    Scores are compared as they come, so they must be relative to nothing that changes. NaN counts
    as the least number, hidden keys are −inf and never appear.
    """

    def __init__(self, rows: int, count: int, dtype: torch.dtype, device: torch.device) -> None:
        self.count = count
        self.least = torch.finfo(dtype).min
        self.values = torch.full((rows, count), -INF, dtype=dtype, device=device)
        self.keys = torch.full((rows, count), -1, dtype=torch.int64, device=device)

    def add(self, scores: Tensor, seen: Tensor | None, keys: range) -> None:
        """A tile of scores (rows, keys), in the order of the keys; it is left as it is."""
        left = scores.nan_to_num(nan=self.least, posinf=INF, neginf=self.least)
        if seen is not None:
            left = left.masked_fill_(~seen, -INF)
        better = (left.amax(-1) > self.values[:, -1]).nonzero()[:, 0]
        if not len(better):
            return
        values, found = _best(left[better], min(self.count, len(keys)))
        values = torch.cat([self.values[better], values], -1)
        found = torch.cat([self.keys[better], found + keys.start], -1)
        values, order = values.sort(dim=-1, descending=True, stable=True)
        self.values[better] = values[:, : self.count]
        self.keys[better] = found.gather(-1, order)[:, : self.count]

    def found(self) -> tuple[Tensor, Tensor]:
        """Keys and scores (rows, count); −1 and −inf where a row sees fewer."""
        return torch.where(self.values.isneginf(), -1, self.keys), self.values


def _best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The best `count` and where they are, one by one: the first of equals, which topk breaks."""
    values, found = [], []
    for _ in range(count):
        value, key = scores.max(-1, keepdim=True)
        values.append(value)
        found.append(key)
        scores.scatter_(-1, key, -INF)
    return torch.cat(values, -1), torch.cat(found, -1)
