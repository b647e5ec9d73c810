"""Packed: which weights are stored quantised, so that their shapes say nothing of their sizes."""

from __future__ import annotations

from collections.abc import Collection

from attn_cli.models.checkpoint.weights import Stored

# What quantisers write beside, or in place of, "q_proj.weight": GPTQ, AWQ, compressed-tensors, HQQ,
# bitsandbytes, FP8 and torchao, MLX. Cache scales are written by inference servers.
BESIDE = (
    "qweight",
    "qzeros",
    "g_idx",
    "scales",
    "biases",
    "weight_packed",
    "weight_scale",
    "weight_scale_2",
    "weight_scale_inv",
    "weight_zero_point",
    "weight_shape",
    "weight_g_idx",
    "weight_global_scale",
    "input_scale",
    "input_global_scale",
    "input_zero_point",
    "output_scale",
    "k_scale",
    "v_scale",
    "q_scale",
    "prob_scale",
    "W_q",
    "meta",
    "SCB",
    "weight_format",
    "absmax",
    "quant_map",
    "nested_absmax",
    "nested_quant_map",
)
_IN_PLACE = ("qweight", "weight_packed", "W_q")
_FLOATS = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ")


def is_beside(name: str) -> bool:
    """Whether a tensor belongs to a quantised one, by its name below the module."""
    last = name.rpartition(".")[2]
    return last in BESIDE or ".quant_state." in name or ".weight." in name


def stands_in(name: str, present: Collection[str]) -> bool:
    """Whether "q_proj.weight" is not there since "q_proj.qweight" stands in its place."""
    stem, _, last = name.rpartition(".")
    return last == "weight" and any(f"{stem}.{word}" in present for word in _IN_PLACE)


def is_packed(stored: Stored) -> bool:
    """Whether a tensor of this dtype holds several numbers in one, or codes, and is no float."""
    return stored.dtype not in _FLOATS
