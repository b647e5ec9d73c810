"""AttentionCall: one attention call of a model as it arrived, tensors and all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from attn_cli.core.model_calls import CallFacts

FILL = -1e4  # what is added and at most this hides a key, as everywhere in attn


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AttentionCall:
    """What came into the call, on the model's device and in its precision, and the context.

    q (B, H, L, d_k), k (B, Hkv, S, d_k), v (B, Hkv, S, d_v), heads not repeated; None where the
    call was seen at its softmax. `mask` is as given: boolean (True = may attend) or added, with
    four axes that broadcast to (B, H, L, S); what is added and at most `below` hides. `sinks`
    broadcasts to (B, H, L, 1), `position_bias` to (B, H, L, S), four axes each. Seen at a softmax,
    `masked` (B, H, L, S) went in and `weights` came out. `context` (B, H, L, d_v) is what the model
    itself computed. Tensors are the model's own: an observer copies what it keeps and changes none.
    """

    facts: CallFacts
    module: nn.Module | None
    q: Tensor | None = None
    k: Tensor | None = None
    v: Tensor | None = None
    mask: Tensor | None = None
    below: float = FILL
    scaling: float = 1.0
    sinks: Tensor | None = None
    position_bias: Tensor | None = None
    masked: Tensor | None = None
    weights: Tensor | None = None
    context: Tensor | None = None

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        tensor = self.q if self.q is not None else self.masked
        assert tensor is not None
        return tensor.device

    @property
    def group(self) -> int:
        """How many query heads share a key/value head."""
        return 1 if self.k is None else self.facts.heads // self.k.shape[1]

    def positions(self, rows: slice) -> range:
        """Where query rows lie among the keys; from 0 where they have no common origin."""
        first = self.facts.q_offset or 0
        return range(first + rows.start, first + rows.stop)

    def last_key(self, rows: slice) -> int:
        """One past the last key that any of these query rows can see by `causal` alone."""
        return min(self.facts.keys, rows.stop) if self.facts.causal else self.facts.keys

    def hidden(self, rows: slice, last: int | None = None) -> Tensor | None:
        """True where a key takes no part, (B or 1, H or 1, l, S'); None where none is hidden.

        By the boolean mask, by `causal`, or by −inf that is added; a finite fill does not hide.
        `last` cuts the keys off behind it.
        """
        keys = self.facts.keys if last is None else last
        if self.mask is not None and self.mask.dtype == torch.bool:
            return ~self._part(self.mask, rows, keys)
        if self.mask is not None:
            hidden = torch.isneginf(self._part(self.mask, rows, keys))
            return hidden if bool(hidden.any()) else None
        if not self.facts.causal:
            return None
        queries = torch.arange(rows.start, rows.stop, device=self.device)[:, None]
        return (torch.arange(keys, device=self.device) > queries)[None, None]

    def added(self, rows: slice, last: int | None = None) -> Tensor | None:
        """The additive mask of these rows, (B or 1, H or 1, l, S'), in float32 or wider."""
        if self.mask is None or self.mask.dtype == torch.bool:
            return None
        return wide(self._part(self.mask, rows, self.facts.keys if last is None else last))

    def bias(self, rows: slice, last: int | None = None) -> Tensor | None:
        """The position bias of these rows, in float32 or wider."""
        if self.position_bias is None:
            return None
        keys = self.facts.keys if last is None else last
        return wide(self._part(self.position_bias, rows, keys))

    def sink(self, rows: slice) -> Tensor | None:
        """The extra logit of these rows, (B or 1, H or 1, l or 1, 1), in float32 or wider."""
        return None if self.sinks is None else wide(self._part(self.sinks, rows, 1))

    def _part(self, tensor: Tensor, rows: slice, keys: int) -> Tensor:
        """With an axis of all these keys, which are counted over it."""
        tensor = tensor if tensor.shape[-2] == 1 else tensor[..., rows, :]
        return tensor[..., :keys].expand(*tensor.shape[:-1], keys)


def four_axes(tensor: Tensor) -> Tensor:
    """With axes of 1 in front, as broadcasting reads what has fewer than (B, H, L, S)."""
    return tensor[(None,) * (4 - tensor.ndim)]


def wide(tensor: Tensor) -> Tensor:
    """float64 as it is, every other floating-point precision in float32."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


class Observer(Protocol):
    """What sees every attention call, in the order in which they run."""

    def see(self, call: AttentionCall) -> None:
        """Once a call, after the model computed its output. The tensors live until it returns."""
        ...


Edit = Callable[[AttentionCall, Tensor], Tensor]
"""New weights (B, H, L, S) for those of a call; the context becomes weights · v."""
