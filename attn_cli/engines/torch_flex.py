"""Engine `flex`: FlexAttention, eager, masks and biases as functions; context and lse."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import flex_attention as flex

from attn_cli.core.around import Around
from attn_cli.core.engine import Ask, Capabilities
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.recorder import Recorder
from attn_cli.core.trace import GIVEN_STAGES, Trace
from attn_cli.torch_arrays import to_numpy, to_tensor, usable_device

STAGES = frozenset((*GIVEN_STAGES, "context", "merged", "output"))
Modify = Callable[..., Tensor]


class FlexEngine:
    """softcap, bias and additive mask as score_mod, hidden keys as mask_mod; context and lse.

    Eager: not compiled, it computes the whole matrix of scores by the same rules. Projections,
    rotations and the output around it are numpy's (`core/around.py`).
    """

    name = "flex"
    can = Capabilities(
        stages=STAGES,
        dtypes=("float64", "float32", "float16", "bfloat16"),
        devices=("any",),
        gradients=False,
        copies=14,
        refuses={"sinks": "FlexAttention has none; they can be put in from its lse afterwards"},
    )

    def run(self, inputs: AttentionInputs, ask: Ask) -> Trace:
        device, dtype = usable_device(ask.device, ask.dtype), getattr(torch, ask.dtype)
        recorder = Recorder(self.name, inputs, ask, STAGES)
        with torch.no_grad(), np.errstate(invalid="ignore", over="ignore", under="ignore"):
            for batch in range(inputs.shape[0]):
                around = Around(inputs, batch, recorder)
                context, lse = _attend(arguments(around, device, dtype))
                around.after(to_numpy(context[0]))
                recorder.finish_without_weights(batch, to_numpy(lse[0]))
        return recorder.trace()


def arguments(around: Around, device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """What flex_attention is called with for one batch item."""
    inputs = around.inputs
    q, k, v = (to_tensor(array, device, dtype)[None] for array in around.before())
    return {
        "query": q,
        "key": k,
        "value": v,
        "score_mod": _score_mod(inputs, around.batch, device, dtype),
        "block_mask": _block_mask(around, device),
        "scale": inputs.effective_scale,
        "enable_gqa": inputs.kv_heads != inputs.shape[1],
    }


def _attend(call: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """The context (1, H, L, d_v) and lse (1, H, L)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
        context, lse = flex.flex_attention(**call, **_lse_wanted())
    return context, getattr(lse, "lse", lse)


def _lse_wanted() -> dict[str, Any]:
    """How this PyTorch is asked for the lse: by AuxRequest (2.9 and later), or return_lse."""
    request = getattr(flex, "AuxRequest", None)
    return {"return_lse": True} if request is None else {"return_aux": request(lse=True)}


def _score_mod(
    inputs: AttentionInputs, batch: int, device: torch.device, dtype: torch.dtype
) -> Modify | None:
    """scaled score → capped, biased, with the additive mask; None where it stays as it is."""
    cap = inputs.softcap
    added = [inputs.biased_by(batch)] if inputs.has_bias else []
    added += [] if inputs.additive is None else [inputs.added(batch)]
    if cap is None and not added:
        return None
    tensors = [to_tensor(array, device, dtype) for array in added]

    def modify(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        if cap is not None:
            score = torch.tanh(score / cap) * cap
        for tensor in tensors:
            score = score + tensor[h, q, k]
        return score

    return modify


def _block_mask(around: Around, device: torch.device) -> flex.BlockMask | None:
    """The visible keys as FlexAttention wants them; None where all are."""
    if around.visible is None:
        return None
    visible = to_tensor(around.visible, device)

    def may_attend(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return visible[h, q, k]

    heads, queries, keys = visible.shape
    return flex.create_block_mask(may_attend, 1, heads, queries, keys, device=str(device))


ENGINE = FlexEngine()
