"""KeyAblation: an edit that takes keys away from a model's queries, as a mask would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attn_cli.core.masks import BoolArray
from attn_cli.core.model_calls import CallFacts, CallPlace
from attn_cli.models.hf.blocks import softmax, stages_of
from attn_cli.models.hf.call import AttentionCall
from attn_cli.models.hf.visible import visible_keys


@dataclass(frozen=True, slots=True)
class KeyAblation:
    """`keys` says which keys (B, S) of a call go, None for none; `only` keeps to some calls.

    Their scores become −inf, so that their weights are 0 and the others share what they had, in
    their proportions. A row that saw nothing else is empty then, and its weights are 0; one whose
    keys were all filled before stays as it was.
    """

    keys: Callable[[CallFacts], BoolArray | None]
    only: frozenset[CallPlace] | None = None

    def __call__(self, call: AttentionCall, weights: Tensor) -> Tensor:
        """The weights (B, H, L, S) without those keys."""
        facts = call.facts
        gone = self.keys(facts) if self.only is None or facts.place in self.only else None
        if gone is None or not gone.any():
            return weights
        rows = slice(0, facts.queries)
        there = torch.as_tensor(gone, device=call.device)[:, None, None]
        visible = visible_keys(call, rows)
        hidden = ~visible | there
        masked = stages_of(call, rows, wanted=("masked",))["masked"].masked_fill(hidden, -torch.inf)
        without = softmax(masked, hidden, call.sink(rows))
        return torch.where(visible.any(-1, keepdim=True), without, weights)
