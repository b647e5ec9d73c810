"""Trust: whether the staged formula gives what the model computed, on a few rows of each call."""

from __future__ import annotations

import torch

from attn_cli.models.hf.blocks import stages_of
from attn_cli.models.hf.call import AttentionCall, wide
from attn_cli.models.hf.visible import visible_keys

ROUNDINGS = 16  # of the model's precision, that an output of size 1 may be off


def explained(call: AttentionCall) -> bool:
    """Whether the first, the middle and the last row of every head are what the model computed.

    Rounding may move a weight by the size of its score times the precision, so the allowance is
    eps · (16 + 8 · the largest score) · the largest value, eps the coarser one of the context's
    precision and the softmax's: many families take softmax in float32 whatever they hold. A row
    that sees no key is passed over, finite fills counted as hidden: kernels differ in what they
    make of it, and a fill of float16 swallows the scores that it is added to.
    """
    facts, context = call.facts, call.context
    assert context is not None
    assert call.v is not None
    eps = max(torch.finfo(dtype).eps for dtype in (context.dtype, _of_softmax(call)))
    largest = wide(call.v).abs().amax()
    for row in sorted({0, facts.queries // 2, facts.queries - 1}):
        rows = slice(row, row + 1)
        stages = stages_of(call, rows, wanted=("biased", "context"))
        score = torch.nan_to_num(stages["biased"]).abs().amax(-1, keepdim=True)
        gap = (wide(context[:, :, rows]) - stages["context"]).abs()
        seen = visible_keys(call, rows).any(-1, keepdim=True)
        wrong = seen & (gap > eps * (ROUNDINGS + 8 * score) * largest)
        if bool(wrong.any()):
            return False
    return True


def _of_softmax(call: AttentionCall) -> torch.dtype:
    """The precision that the call's softmax was seen to have; the context's inside a kernel."""
    assert call.context is not None
    seen = getattr(torch, call.facts.softmax_dtype, None)
    return seen if isinstance(seen, torch.dtype) else call.context.dtype
