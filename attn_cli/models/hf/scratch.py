"""Scratch: memory for blocks of scores, used again and again.

An array of a block's size that is made anew is given back to the system each time, and its pages
are found anew: that costs several times what a pass over it costs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


class Scratch:
    """Room by name; what asks for the same name gets the same memory, as it was left."""

    def __init__(self) -> None:
        self._kept: dict[str, Tensor] = {}
        self._later: dict[tuple[int, torch.device], Tensor] = {}

    def room(self, name: str, like: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Room for `shape`, of the precision of `like` and on its device."""
        size, kept = math.prod(shape), self._kept.get(name)
        if (
            kept is None
            or kept.numel() < size
            or (kept.dtype, kept.device) != (like.dtype, like.device)
        ):
            kept = torch.empty(size, dtype=like.dtype, device=like.device)
            self._kept[name] = kept
        return kept[:size].view(shape)

    def later(self, length: int, device: torch.device) -> Tensor:
        """True above the diagonal of (length, length)."""
        if (length, device) not in self._later:
            every = torch.ones(length, length, dtype=torch.bool, device=device)
            self._later[length, device] = every.triu_(1)
        return self._later[length, device]
