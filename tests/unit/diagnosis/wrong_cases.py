"""Which mistake is in which entry of impls/wrong_*.py, what they are meant to do, and their right
counterparts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ANY = ["LD", "BLD", "BHLD"]


@dataclass(frozen=True, slots=True)
class Case:
    """`entry` commits the mistake `code`; `right` is code of its kind without it."""

    code: str
    entry: str
    right: str
    call: Mapping[str, Any]
    intent: Mapping[str, Any]


def function(
    *,
    layouts: list[str] | None = None,
    lib: str = "torch",
    differ: bool = True,
    mask: str | None = None,
    returns: tuple[str, ...] = ("out",),
) -> dict[str, Any]:
    spec = None
    if mask is not None:
        bias = mask.startswith("bias")
        added = bias or mask.startswith("additive")
        spec = {
            "arg": "bias" if bias else "mask",
            "kind": mask,
            "dtype": "float" if added else "bool",
        }
    return {
        "kind": "function",
        "lib": lib,
        "inputs": ["q", "k", "v"],
        "layouts": layouts or ANY,
        "lengths_may_differ": differ,
        "mask": spec,
        "returns": list(returns),
    }


def module(
    inputs: tuple[str, ...] = ("x",),
    *,
    width: int = 24,
    mask: tuple[str, str, str] | None = None,
    returns: tuple[str, ...] = ("out",),
    differ: bool = False,
) -> dict[str, Any]:
    return {
        "kind": "module",
        "lib": "torch",
        "init": {},
        "inputs": list(inputs),
        "layouts": ["BLD"],
        "lengths_may_differ": differ,
        "mask": None if mask is None else dict(zip(("arg", "kind", "dtype"), mask, strict=True)),
        "returns": list(returns),
        "dim": width,
    }


def separate(q: str, k: str, v: str, o: str) -> dict[str, Any]:
    return {"type": "separate", "q": q, "k": k, "v": v, "o": o}


MASKED = function(mask="keep_pair")
PLAIN = function(differ=False)
HEADED = function(layouts=["BHLD"])
NUMPY = function(layouts=["LD"], lib="numpy", differ=False)
BATCHED = function(layouts=["BLD"], differ=False)
CAUSAL = {"causal": True}

LAYER = module(mask=("pad", "drop_pad", "bool"))
LAYER_INTENT = {"heads": 3, "weights": separate("query", "key", "value", "final")}
PACKED = module(mask=("mask", "keep_pad", "int"))
PACKED_INTENT = {"heads": 3, "causal": True, "weights": {"type": "fused", "qkv": "qkv", "o": "out"}}
ROTARY = module(width=20, returns=("out", "cache"))
QKVO = separate("q", "k", "v", "o")
ROTARY_INTENT = {
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 6,
    "causal": True,
    "rope": {"base": 10000.0, "layout": "half"},
    "weights": QKVO,
    "cache_arg": "cache",
}
LINEAR_INTENT = {
    "heads": 4,
    "causal": True,
    "alibi": True,
    "weights": separate("to_q", "to_k", "to_v", "to_out"),
}
TABLE = module(mask=("mask", "keep_pad_left", "int"))
TABLE_INTENT = {"heads": 3, "causal": True, "positions": "wpe", "weights": QKVO}
CROSS = module(("x", "context"), differ=True)
CROSS_INTENT = {"heads": 3, "weights": QKVO}


POSITIONED = ("Rotary", "Linear", "Table")


def _function(code: str, right: str, call: Mapping[str, Any], **intent: Any) -> Case:
    file = "wrong_causal.py" if intent else "wrong_functions.py"
    return Case(code, f"{file}:{code}", f"{file}:{right}", call, intent)


def _module(
    code: str, entry: str, right: str, call: Mapping[str, Any], intent: Mapping[str, Any]
) -> Case:
    file = "wrong_positions.py" if right in POSITIONED else "wrong_modules.py"
    return Case(code, f"{file}:{entry}", f"{file}:{right}", call, intent)


CASES = (
    _function("scale_missing", "right", MASKED),
    _function("scale_by_dk", "right_filled", MASKED),
    _function("scale_applied_twice", "right_sdpa", MASKED),
    _function("scale_inverted", "right_sdpa", MASKED),
    _function("scale_by_key_count", "right_sdpa", MASKED),
    _function("scale_by_num_heads", "right_sdpa", function(layouts=["BHLD"], mask="keep_pair")),
    _function("wrong_on_large_scores", "right", PLAIN),
    _function("scale_after_softmax", "right_filled", MASKED),
    _function("softmax_over_queries", "right", MASKED),
    _function("softmax_over_everything", "right", MASKED),
    _function("softmax_over_batch", "right", BATCHED),
    _function("softmax_over_heads", "right", HEADED),
    _function("softmax_plus_one", "right", MASKED),
    _function("softmax_missing", "right", PLAIN),
    _function("log_softmax_weights", "right", PLAIN),
    _function("softmax_overflow", "right_late", MASKED),
    _function("softmax_wrong_normaliser", "numpy_right", NUMPY),
    _function("mask_no_effect", "right", MASKED),
    _function("mask_polarity_inverted", "right_filled", MASKED),
    _function("mask_after_softmax", "right_late", MASKED),
    _function("late_mask_underflow", "right_late", MASKED),
    _function("mask_multiplied", "right_filled", MASKED),
    _function("mask_fill_too_small", "right_filled", MASKED),
    Case(
        "mask_fill_too_small",
        "wrong_functions.py:mask_fill_small_added",
        "wrong_functions.py:right_filled",
        MASKED,
        {},
    ),
    _function("mask_fill_positive", "right_filled", MASKED),
    _function("mask_added_as_is", "right_sdpa", MASKED),
    _function("mask_zero_times_inf", "right", MASKED),
    _function("keys_used_as_values", "right_sdpa", MASKED),
    _function("weights_transposed", "right", PLAIN),
    _function("einsum_index_not_shared", "right", PLAIN),
    _function("query_key_swapped", "right", PLAIN),
    _function("key_reshaped_not_transposed", "right", PLAIN),
    _function("key_transposed_all_axes", "numpy_batched", function(layouts=["BLD"], lib="numpy")),
    _function("loop_skips_last_key", "right", PLAIN),
    _function("half_precision_scores", "right", MASKED),
    _function("mutates_inputs", "right", MASKED),
    _function("crash_on_bool_mask", "right", MASKED),
    _function("crash_on_length_mismatch", "right", function(layouts=["BLD"])),
    _function("attends_over_features", "right", PLAIN),
    _function("attends_over_heads", "right", HEADED),
    _function("attends_over_batch", "right", BATCHED),
    _function("bias_scaled_too", "bias_right", function(layouts=["BHLD"], mask="bias_pair")),
    _function("causal_missing", "causal_right", PLAIN, **CAUSAL),
    _function("causal_excludes_self", "causal_right", PLAIN, **CAUSAL),
    _function("causal_leaks_next", "causal_right", PLAIN, **CAUSAL),
    _function("causal_reversed", "causal_right", PLAIN, **CAUSAL),
    _function("window_off_by_one", "window_right", PLAIN, causal=True, window=3),
    _function("softcap_after_mask", "capped_right", PLAIN, causal=True, softcap=2.0),
    _function("integer_truncation", "numpy_right", NUMPY),
    _function(
        "returns_scores_as_weights", "with_weights_right", function(returns=("out", "weights"))
    ),
    _function("stateful_between_calls", "right_sdpa", MASKED),
    _function("dropout_in_eval", "right", PLAIN),
    _module("scale_by_d_model", "ScaleByDModel", "Layer", LAYER, LAYER_INTENT),
    _module("scale_by_num_heads", "ScaleByNumHeads", "Layer", LAYER, LAYER_INTENT),
    _module("key_uses_query_projection", "KeyUsesQuery", "Layer", LAYER, LAYER_INTENT),
    _module("value_uses_key_projection", "ValueUsesKey", "Layer", LAYER, LAYER_INTENT),
    _module("heads_split_by_view", "SplitByView", "Layer", LAYER, LAYER_INTENT),
    _module("heads_interleaved_on_split", "SplitInterleaved", "Layer", LAYER, LAYER_INTENT),
    _module("heads_merged_without_transpose", "MergedAsItLies", "Layer", LAYER, LAYER_INTENT),
    _module("heads_interleaved_on_merge", "MergedInterleaved", "Layer", LAYER, LAYER_INTENT),
    _module("out_proj_missing", "NoFinal", "Layer", LAYER, LAYER_INTENT),
    _module("out_proj_transposed", "FinalTransposed", "Layer", LAYER, LAYER_INTENT),
    _module("attends_over_heads", "AlongHeads", "Layer", module(), LAYER_INTENT),
    _module("pad_mask_on_queries", "PadOnQueries", "Layer", LAYER, LAYER_INTENT),
    _module("mask_polarity_inverted", "PadInverted", "Layer", LAYER, LAYER_INTENT),
    _module("mask_broadcast_wrong_axis", "PadAsItBroadcasts", "Layer", LAYER, LAYER_INTENT),
    _module("mask_broadcast_wrong_axis", "PadForHeads", "Layer", LAYER, LAYER_INTENT),
    _module("mask_head_batch_order", "PadRepeated", "Layer", LAYER, LAYER_INTENT),
    _module("mask_added_as_is", "PadAdded", "Layer", LAYER, LAYER_INTENT),
    _module("stateful_between_calls", "Remembers", "Layer", LAYER, LAYER_INTENT),
    _module("dropout_in_eval", "DroppedAlways", "Dropped", LAYER, LAYER_INTENT),
    _module("dropout_before_softmax", "DroppedScores", "Dropped", LAYER, LAYER_INTENT),
    _module("qkv_chunk_order", "PackedOrder", "Packed", PACKED, PACKED_INTENT),
    _module("qkv_interleaved_layout", "PackedPerHead", "Packed", PACKED, PACKED_INTENT),
    _module("causal_dropped_with_mask", "MaskInsteadOfCausal", "Packed", PACKED, PACKED_INTENT),
    _module("rope_query_only", "RotaryQueryOnly", "Rotary", ROTARY, ROTARY_INTENT),
    _module("rope_missing", "RotaryMissing", "Rotary", ROTARY, ROTARY_INTENT),
    _module("rope_layout_mixed", "RotaryMixed", "Rotary", ROTARY, ROTARY_INTENT),
    _module("rope_other_pairs", "RotaryNeighbours", "Rotary", ROTARY, ROTARY_INTENT),
    _module("rope_cache_position", "RotaryRestarts", "Rotary", ROTARY, ROTARY_INTENT),
    _module("gqa_tile_order", "Tiled", "Rotary", ROTARY, ROTARY_INTENT),
    _module("gqa_repeat_elements", "RepeatedElements", "Rotary", ROTARY, ROTARY_INTENT),
    _module("scale_wrong_head_dim", "WrongHeadDim", "Rotary", ROTARY, ROTARY_INTENT),
    _module("causal_top_left_with_cache", "TopLeft", "Rotary", ROTARY, ROTARY_INTENT),
    _module("alibi_sign", "LinearSign", "Linear", module(), LINEAR_INTENT),
    _module("positions_ignore_padding", "TablePadded", "Table", TABLE, TABLE_INTENT),
    _module("context_ignored", "CrossIgnores", "Cross", CROSS, CROSS_INTENT),
    _module("cross_attention_swapped", "CrossSwapped", "Cross", CROSS, CROSS_INTENT),
    _module(
        "attends_over_batch",
        "LibraryTokensFirst",
        "Library",
        module(),
        {"heads": 3, "weights": {"type": "mha", "attr": "inner"}},
    ),
)
