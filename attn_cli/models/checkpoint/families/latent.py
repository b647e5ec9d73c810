"""Multi-head latent attention: DeepSeek-V2 and what came of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from attn_cli.models.checkpoint.family import At, Attention, Family, Mixer, Stack

_LATENT = Attention(latent=True, bias={"qko": "attention_bias"})  # q only through its latent
_INDEXED = replace(_LATENT, ignored=(r"^indexer\.",))  # which keys are looked at: no attention


def yarn_scale(at: At) -> float:
    """1/√d_k · m², m = 0.1 · mscale_all_dim · ln(factor) + 1, where positions were stretched."""
    scale = float(at.d_k**-0.5)
    for name in ("rope_parameters", "rope_scaling"):
        entry = at.fields.found(name)
        if entry is None or not isinstance(entry[1], dict):
            continue
        said = at.fields.text(f"{name}.rope_type") or at.fields.text(f"{name}.type")
        mscale = at.fields.number(f"{name}.mscale_all_dim") or 0.0
        factor = at.fields.number(f"{name}.factor") or 1.0
        if said not in ("", "default") and mscale and factor > 1:
            scale *= (0.1 * mscale * math.log(factor) + 1.0) ** 2
        return scale
    return scale


DEEPSEEK = Stack(attention=(_LATENT,), scale=yarn_scale, extra_layers="num_nextn_predict_layers")
_PICKED = Mixer("softmax", "attention to keys that an indexer picks")
_SPARSE = replace(DEEPSEEK, attention=(_INDEXED,), mixers={"attention": _PICKED})
_PLAIN_SCALE = Stack(attention=(_LATENT,))

LATENT: Mapping[str, Family] = {
    "deepseek_v2": Family((DEEPSEEK,)),
    "deepseek_v3": Family((DEEPSEEK,)),
    "deepseek_v32": Family((_SPARSE,)),
    "glm4_moe_lite": Family((DEEPSEEK,)),
    "glm_moe_dsa": Family((_SPARSE,)),
    "minicpm3": Family((_PLAIN_SCALE,)),
}
