"""Named mistakes: the catalogue, one entry a code, in the order in which they are tried."""

from __future__ import annotations

from attn_cli.core.registry import Registry
from attn_cli.diagnosis.mistakes.base import Mistake

MISTAKES: Registry[Mistake] = Registry(
    "mistake",
    {
        "scale_missing": "attn_cli.diagnosis.mistakes.scale:SCALE_MISSING",
        "scale_by_dk": "attn_cli.diagnosis.mistakes.scale:SCALE_BY_DK",
        "scale_applied_twice": "attn_cli.diagnosis.mistakes.scale:SCALE_APPLIED_TWICE",
        "scale_inverted": "attn_cli.diagnosis.mistakes.scale:SCALE_INVERTED",
        "scale_by_d_model": "attn_cli.diagnosis.mistakes.scale:SCALE_BY_D_MODEL",
        "scale_by_num_heads": "attn_cli.diagnosis.mistakes.scale:SCALE_BY_NUM_HEADS",
        "scale_by_key_count": "attn_cli.diagnosis.mistakes.scale:SCALE_BY_KEY_COUNT",
        "scale_wrong_head_dim": "attn_cli.diagnosis.mistakes.scale:SCALE_WRONG_HEAD_DIM",
        "bias_scaled_too": "attn_cli.diagnosis.mistakes.scale:BIAS_SCALED_TOO",
        "causal_missing": "attn_cli.diagnosis.mistakes.masking:CAUSAL_MISSING",
        "causal_excludes_self": "attn_cli.diagnosis.mistakes.masking:CAUSAL_EXCLUDES_SELF",
        "causal_leaks_next": "attn_cli.diagnosis.mistakes.masking:CAUSAL_LEAKS_NEXT",
        "causal_reversed": "attn_cli.diagnosis.mistakes.masking:CAUSAL_REVERSED",
        "causal_dropped_with_mask": "attn_cli.diagnosis.mistakes.masking:CAUSAL_DROPPED_WITH_MASK",
        "causal_top_left_with_cache": (
            "attn_cli.diagnosis.mistakes.masking:CAUSAL_TOP_LEFT_WITH_CACHE"
        ),
        "window_off_by_one": "attn_cli.diagnosis.mistakes.masking:WINDOW_OFF_BY_ONE",
        "mask_no_effect": "attn_cli.diagnosis.mistakes.masking:MASK_NO_EFFECT",
        "mask_polarity_inverted": "attn_cli.diagnosis.mistakes.masking:MASK_POLARITY_INVERTED",
        "pad_mask_on_queries": "attn_cli.diagnosis.mistakes.masking:PAD_MASK_ON_QUERIES",
        "mask_broadcast_wrong_axis": (
            "attn_cli.diagnosis.mistakes.masking:MASK_BROADCAST_WRONG_AXIS"
        ),
        "mask_head_batch_order": "attn_cli.diagnosis.mistakes.masking:MASK_HEAD_BATCH_ORDER",
        "softcap_after_mask": "attn_cli.diagnosis.mistakes.masking:SOFTCAP_AFTER_MASK",
        "mask_after_softmax": "attn_cli.diagnosis.mistakes.filling:MASK_AFTER_SOFTMAX",
        "late_mask_underflow": "attn_cli.diagnosis.mistakes.filling:LATE_MASK_UNDERFLOW",
        "mask_multiplied": "attn_cli.diagnosis.mistakes.filling:MASK_MULTIPLIED",
        "mask_fill_too_small": "attn_cli.diagnosis.mistakes.filling:MASK_FILL_TOO_SMALL",
        "mask_fill_positive": "attn_cli.diagnosis.mistakes.filling:MASK_FILL_POSITIVE",
        "mask_added_as_is": "attn_cli.diagnosis.mistakes.filling:MASK_ADDED_AS_IS",
        "mask_zero_times_inf": "attn_cli.diagnosis.mistakes.filling:MASK_ZERO_TIMES_INF",
        "scale_after_softmax": "attn_cli.diagnosis.mistakes.softmax:SCALE_AFTER_SOFTMAX",
        "softmax_over_queries": "attn_cli.diagnosis.mistakes.softmax:SOFTMAX_OVER_QUERIES",
        "softmax_over_heads": "attn_cli.diagnosis.mistakes.softmax:SOFTMAX_OVER_HEADS",
        "softmax_over_batch": "attn_cli.diagnosis.mistakes.softmax:SOFTMAX_OVER_BATCH",
        "softmax_over_everything": "attn_cli.diagnosis.mistakes.softmax:SOFTMAX_OVER_EVERYTHING",
        "softmax_wrong_normaliser": "attn_cli.diagnosis.mistakes.softmax:SOFTMAX_WRONG_NORMALISER",
        "softmax_plus_one": "attn_cli.diagnosis.mistakes.softmax:SOFTMAX_PLUS_ONE",
        "softmax_missing": "attn_cli.diagnosis.mistakes.softmax:SOFTMAX_MISSING",
        "log_softmax_weights": "attn_cli.diagnosis.mistakes.softmax:LOG_SOFTMAX_WEIGHTS",
        "softmax_overflow": "attn_cli.diagnosis.mistakes.softmax:SOFTMAX_OVERFLOW",
        "attends_over_batch": "attn_cli.diagnosis.mistakes.scores:ATTENDS_OVER_BATCH",
        "attends_over_heads": "attn_cli.diagnosis.mistakes.scores:ATTENDS_OVER_HEADS",
        "attends_over_features": "attn_cli.diagnosis.mistakes.scores:ATTENDS_OVER_FEATURES",
        "query_key_swapped": "attn_cli.diagnosis.mistakes.scores:QUERY_KEY_SWAPPED",
        "key_reshaped_not_transposed": (
            "attn_cli.diagnosis.mistakes.scores:KEY_RESHAPED_NOT_TRANSPOSED"
        ),
        "key_transposed_all_axes": "attn_cli.diagnosis.mistakes.scores:KEY_TRANSPOSED_ALL_AXES",
        "loop_skips_last_key": "attn_cli.diagnosis.mistakes.scores:LOOP_SKIPS_LAST_KEY",
        "half_precision_scores": "attn_cli.diagnosis.mistakes.scores:HALF_PRECISION_SCORES",
        "keys_used_as_values": "attn_cli.diagnosis.mistakes.mixing:KEYS_USED_AS_VALUES",
        "weights_transposed": "attn_cli.diagnosis.mistakes.mixing:WEIGHTS_TRANSPOSED",
        "einsum_index_not_shared": "attn_cli.diagnosis.mistakes.mixing:EINSUM_INDEX_NOT_SHARED",
        "integer_truncation": "attn_cli.diagnosis.mistakes.mixing:INTEGER_TRUNCATION",
        "returns_scores_as_weights": "attn_cli.diagnosis.mistakes.mixing:RETURNS_SCORES_AS_WEIGHTS",
        "heads_split_by_view": "attn_cli.diagnosis.mistakes.split:HEADS_SPLIT_BY_VIEW",
        "heads_interleaved_on_split": (
            "attn_cli.diagnosis.mistakes.split:HEADS_INTERLEAVED_ON_SPLIT"
        ),
        "gqa_tile_order": "attn_cli.diagnosis.mistakes.split:GQA_TILE_ORDER",
        "gqa_repeat_elements": "attn_cli.diagnosis.mistakes.split:GQA_REPEAT_ELEMENTS",
        "heads_merged_without_transpose": (
            "attn_cli.diagnosis.mistakes.split:HEADS_MERGED_WITHOUT_TRANSPOSE"
        ),
        "heads_interleaved_on_merge": (
            "attn_cli.diagnosis.mistakes.split:HEADS_INTERLEAVED_ON_MERGE"
        ),
        "out_proj_missing": "attn_cli.diagnosis.mistakes.split:OUT_PROJ_MISSING",
        "out_proj_transposed": "attn_cli.diagnosis.mistakes.split:OUT_PROJ_TRANSPOSED",
        "key_uses_query_projection": (
            "attn_cli.diagnosis.mistakes.projection:KEY_USES_QUERY_PROJECTION"
        ),
        "value_uses_key_projection": (
            "attn_cli.diagnosis.mistakes.projection:VALUE_USES_KEY_PROJECTION"
        ),
        "qkv_chunk_order": "attn_cli.diagnosis.mistakes.projection:QKV_CHUNK_ORDER",
        "qkv_interleaved_layout": "attn_cli.diagnosis.mistakes.projection:QKV_INTERLEAVED_LAYOUT",
        "context_ignored": "attn_cli.diagnosis.mistakes.projection:CONTEXT_IGNORED",
        "cross_attention_swapped": "attn_cli.diagnosis.mistakes.projection:CROSS_ATTENTION_SWAPPED",
        "rope_query_only": "attn_cli.diagnosis.mistakes.position:ROPE_QUERY_ONLY",
        "rope_missing": "attn_cli.diagnosis.mistakes.position:ROPE_MISSING",
        "rope_layout_mixed": "attn_cli.diagnosis.mistakes.position:ROPE_LAYOUT_MIXED",
        "rope_other_pairs": "attn_cli.diagnosis.mistakes.position:ROPE_OTHER_PAIRS",
        "rope_cache_position": "attn_cli.diagnosis.mistakes.position:ROPE_CACHE_POSITION",
        "alibi_sign": "attn_cli.diagnosis.mistakes.position:ALIBI_SIGN",
        "positions_ignore_padding": "attn_cli.diagnosis.mistakes.position:POSITIONS_IGNORE_PADDING",
        "mutates_inputs": "attn_cli.diagnosis.mistakes.interface:MUTATES_INPUTS",
        "stateful_between_calls": "attn_cli.diagnosis.mistakes.interface:STATEFUL_BETWEEN_CALLS",
        "dropout_in_eval": "attn_cli.diagnosis.mistakes.interface:DROPOUT_IN_EVAL",
        "dropout_before_softmax": "attn_cli.diagnosis.mistakes.interface:DROPOUT_BEFORE_SOFTMAX",
        "wrong_on_large_scores": "attn_cli.diagnosis.mistakes.interface:WRONG_ON_LARGE_SCORES",
        "crash_on_bool_mask": "attn_cli.diagnosis.mistakes.interface:CRASH_ON_BOOL_MASK",
        "crash_on_length_mismatch": (
            "attn_cli.diagnosis.mistakes.interface:CRASH_ON_LENGTH_MISMATCH"
        ),
    },
)
