"""Visible keys of some query rows of a call, finite fills counted as hidden."""

from __future__ import annotations

import torch
from torch import Tensor

from attn_cli.models.hf.call import FILL, AttentionCall


def visible_keys(call: AttentionCall, rows: slice) -> Tensor:
    """(b, h, l, S) boolean, b and h of 1 where all are alike: the keys that each query sees.

    Of a call that was seen at its softmax those whose masked score is above −1e4.
    """
    if call.masked is not None:
        return call.masked[:, :, rows] > FILL
    shape = (1, 1, rows.stop - rows.start, call.facts.keys)
    visible = torch.ones(shape, dtype=torch.bool, device=call.device)
    hidden, added = call.hidden(rows), call.added(rows)
    if hidden is not None:
        visible = visible & ~hidden
    return visible if added is None else visible & (added > call.below)
