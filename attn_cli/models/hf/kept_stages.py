"""Stages of a kept call: the staged formula once more, over arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attn_cli.models.hf.blocks import rows_of, stages_of
from attn_cli.models.hf.call import AttentionCall
from attn_cli.models.hf.call_keeper import TENSORS, KeptCall
from attn_cli.torch_arrays import to_numpy

BETWEEN = ("scores", "scaled", "softcapped", "biased", "masked", "weights")


def stages_of_kept(kept: KeptCall) -> dict[str, NDArray[Any]]:
    """From scores to weights, (B, H, L, S), float32 or float64 where the model is; no context.

    A step that the call does not take is left out. Seen at its softmax it has masked and weights.
    """
    tensors: dict[str, Any] = dict.fromkeys(TENSORS)
    tensors |= {name: torch.from_numpy(array) for name, array in kept.arrays.items()}
    call = AttentionCall(facts=kept.facts, module=None, scaling=kept.scaling, **tensors)
    parts: dict[str, list[NDArray[Any]]] = {}
    for rows in rows_of(call):
        for name, stage in stages_of(call, rows, wanted=_taken(kept)).items():
            parts.setdefault(name, []).append(to_numpy(stage))
    return {name: np.concatenate(blocks, 2) for name, blocks in parts.items()}


def _taken(kept: KeptCall) -> list[str]:
    facts = kept.facts
    idle = {
        "scaled": kept.scaling == 1,
        "softcapped": facts.softcap is None,
        "biased": not facts.position_bias,
        "masked": facts.mask is None and not facts.causal and facts.how != "softmax",
    }
    return [name for name in BETWEEN if not idle.get(name, False)]
