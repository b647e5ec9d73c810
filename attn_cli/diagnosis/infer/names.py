"""The words people use: constructor arguments, forward parameters, projections, results."""

from __future__ import annotations

import re
from collections.abc import Mapping

Table = Mapping[str, tuple[str, ...]]

# Arguments of a constructor, and fields of a configuration.
CONSTRUCTOR: Table = {
    "dim": (
        *("d_model", "embed_dim", "hidden_size", "dim", "n_embd", "features", "emb", "embed"),
        *("channels", "c", "width", "hidden", "model_dim", "dim_model", "emb_dim", "embedding_dim"),
        *("in_dim", "in_features", "d_in", "input_dim", "in_channels", "query_dim", "num_channels"),
        *(
            "embed_size",
            "emb_size",
            "embedding_size",
            "hidden_dim",
            "hid_dim",
            "units",
            "d",
            "size",
        ),
        *("model_size", "dmodel", "n_state", "num_hiddens", "dim_in", "d_embed", "input_size"),
        *("d_hidden", "qdim", "q_dim", "residual_dim", "n_features", "attention_dim", "d_emb"),
    ),
    "heads": (
        *("n_heads", "num_heads", "n_head", "heads", "h", "nhead", "head", "num_head", "nheads"),
        *("num_attention_heads", "num_attn_heads", "head_count", "n_h", "nh", "attention_heads"),
        *(
            "number_of_heads",
            "num_q_heads",
            "n_q_heads",
            "q_heads",
            "num_query_heads",
            "query_heads",
        ),
    ),
    "kv_heads": (
        *("num_kv_heads", "n_kv_heads", "kv_heads", "num_key_value_heads", "n_kv", "nkv"),
        *("num_query_groups", "n_query_groups", "n_kv_head", "kv_groups", "num_groups", "n_groups"),
        *("key_value_heads", "groups", "n_key_value_heads", "heads_kv", "num_kv_groups"),
    ),
    "head_dim": (
        *("head_dim", "d_head", "dim_head", "d_k", "d_kv", "head_size", "key_dim", "dk", "hd"),
        *("kv_channels", "size_per_head", "head_width", "dim_per_head", "qk_dim", "d_v", "d_q"),
        *("value_dim", "dv", "head_features", "attention_head_size", "dim_heads", "per_head"),
    ),
    "context_dim": (
        *(
            "context_dim",
            "cross_attention_dim",
            "kdim",
            "vdim",
            "memory_dim",
            "kv_dim",
            "d_context",
        ),
        *("encoder_dim", "dim_context", "cond_dim", "d_memory", "key_value_dim", "encoder_hidden"),
    ),
    "out_dim": ("d_out", "out_dim", "output_dim", "out_features", "out_channels", "dim_out"),
    "dropout": (
        *("dropout", "drop", "p_drop", "attn_drop", "attn_dropout", "attention_dropout", "pdrop"),
        *("attn_pdrop", "resid_pdrop", "proj_drop", "dropout_p", "drop_rate", "dropout_rate", "p"),
        *("attention_probs_dropout_prob", "dropout_prob", "drop_p", "drop_prob", "resid_dropout"),
    ),
    "bias": ("bias", "qkv_bias", "use_bias", "attention_bias", "proj_bias"),
    "causal": ("causal", "is_causal", "autoregressive", "is_decoder", "use_causal_mask", "masked"),
    "window": ("window", "window_size", "sliding_window", "local_window", "attention_window"),
    "softcap": (
        *("softcap", "cap", "soft_cap", "logit_cap", "logits_cap", "logit_softcap", "tanh_cap"),
        *("attn_logit_softcapping", "attn_softcap", "score_cap", "logits_soft_cap"),
    ),
    "length": (
        *("max_len", "block_size", "max_seq_len", "seq_len", "context_length", "ctx_len", "n_ctx"),
        *("max_position_embeddings", "max_length", "context_len", "max_positions", "context_size"),
        *("max_seq_length", "sequence_length", "n_positions", "max_tokens", "max_seq", "length"),
    ),
    "rope_base": ("rope_theta", "theta", "base", "rope_base", "rotary_base", "freq_base"),
    "layer": ("layer_idx", "layer_index", "layer", "layer_id", "depth"),
    "seed": ("seed", "rng_seed", "random_seed"),
    "config": ("config", "cfg", "conf", "args", "hparams", "opts", "options", "params", "hp"),
}

# What is given for a constructor argument that has no default and that nobody said.
VALUES: Mapping[str, object] = {
    "dim": 32,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 8,
    "context_dim": 32,
    "out_dim": 32,
    "dropout": 0.1,
    "bias": True,
    "length": 64,
    "rope_base": 10_000.0,
    "layer": 0,
    "seed": 0,
}

# Parameters of forward, or of a function.
FORWARD: Table = {
    "x": (
        *("x", "hidden_states", "inputs", "input", "embeddings", "tokens", "src", "resid", "seq"),
        *("features", "feats", "inp", "input_tensor", "embeds", "h", "hidden", "residual", "emb"),
        *("token_vectors", "sequence", "input_embeddings", "xs", "hiddens", "z", "tgt", "states"),
        *(
            "hidden_state",
            "activations",
            "data",
            "x_in",
            "tensor",
            "input_seq",
            "patches",
            "images",
        ),
    ),
    "q": ("q", "query", "queries", "xq", "x_q", "q_in", "query_states", "input_q", "qs", "q_input"),
    "k": ("k", "key", "keys", "xk", "x_k", "k_in", "key_states", "input_k", "ks", "k_input"),
    "v": ("v", "value", "values", "xv", "x_v", "v_in", "value_states", "vals", "vs", "input_v"),
    "context": (
        *("context", "memory", "encoder_hidden_states", "enc", "encoder_out", "encoder_output"),
        *("kv", "key_value_states", "mem", "cond", "cross", "y", "source", "ctx", "encoder_states"),
        *("enc_output", "enc_out", "encoded", "x_kv", "kv_states", "memory_states", "encoder", "c"),
        *("conditioning", "cond_states", "key_value", "kv_input", "other", "context_states", "xkv"),
    ),
    "positions": (
        "positions",
        "position_ids",
        "pos_ids",
        "pos",
        "input_pos",
        "position",
        "offsets",
    ),
    "cache": (
        *(
            "cache",
            "past",
            "past_kv",
            "past_key_value",
            "past_key_values",
            "kv_cache",
            "layer_past",
        ),
        *("state", "prev", "previous", "past_state", "cached", "memory_cache", "cached_kv"),
    ),
    "w_q": ("w_q", "wq", "q_weight", "weight_q", "query_weight", "q_w", "w_query", "weights_q"),
    "w_k": ("w_k", "wk", "k_weight", "weight_k", "key_weight", "k_w", "w_key", "weights_k"),
    "w_v": ("w_v", "wv", "v_weight", "weight_v", "value_weight", "v_w", "w_value", "weights_v"),
    "w_o": ("w_o", "wo", "o_weight", "weight_o", "out_weight", "o_w", "w_out", "weights_o"),
    "heads": CONSTRUCTOR["heads"],
    "kv_heads": CONSTRUCTOR["kv_heads"],
}

# Flags of forward that only make it show more.
SHOWS_WEIGHTS = (
    *("need_weights", "return_weights", "return_attn", "return_attention", "output_attentions"),
    *("return_attention_weights", "return_attn_weights", "with_weights", "return_probs"),
    *("output_attention", "need_attn", "return_map", "return_scores"),
)

# What is added to the scores as it is.
BIASES = (
    *("bias", "rel_bias", "position_bias", "attn_bias", "attention_bias", "relative_position_bias"),
    *("rel_pos_bias", "rel_pos", "relative_bias", "score_bias", "pos_bias", "alibi_bias", "biases"),
)

# The parts of a mask's name that say what True, or 1, means; what says nothing is asked for.
KEEPS = ("keep", "valid", "visible", "allowed", "allow", "attend", "real", "present", "is_token")
HIDES = ("hidden", "hide", "blocked", "ignore", "exclude", "forbid", "future", "forbidden")
HIDES_AS_MASK = ("drop", "block")  # drop_mask; not drop_prob
PADS = ("pad", "padding", "valid", "real", "is_token", "lengths", "src_mask", "attention_mask")
WHOLE_NAMES: Mapping[str, str] = {
    "attention_mask": "keep",
    "encoder_attention_mask": "keep",
    "att_mask": "keep",
    "pad": "hidden",
    "pads": "hidden",
    "is_pad": "hidden",
    "is_padding": "hidden",
    "padding": "hidden",
    "key_padding_mask": "hidden",
    "src_key_padding_mask": "hidden",
    "tgt_key_padding_mask": "hidden",
    "memory_key_padding_mask": "hidden",
    "additive_mask": "additive",
}

# The projections, by the last part of a module's or tensor's name.
PROJECTIONS: Table = {
    "q": (
        *("q", "wq", "w_q", "q_proj", "to_q", "query", "q_lin", "q_linear", "linear_q", "proj_q"),
        *("query_proj", "queries", "fc_q", "q_layer", "wqs", "w_qs", "query_projection", "lin_q"),
        *("w_query", "query_linear", "q_fc", "query_layer", "to_query", "to_queries", "q_map"),
        *("q_net", "q_w", "weight_q", "q_weight", "q_projection", "linear_query", "proj_query"),
    ),
    "k": (
        *("k", "wk", "w_k", "k_proj", "to_k", "key", "k_lin", "k_linear", "linear_k", "proj_k"),
        *("key_proj", "keys", "fc_k", "k_layer", "wks", "w_ks", "key_projection", "lin_k"),
        *("w_key", "key_linear", "k_fc", "key_layer", "to_key", "to_keys", "k_map"),
        *("k_net", "k_w", "weight_k", "k_weight", "k_projection", "linear_key", "proj_key"),
    ),
    "v": (
        *("v", "wv", "w_v", "v_proj", "to_v", "value", "v_lin", "v_linear", "linear_v", "proj_v"),
        *("value_proj", "values", "fc_v", "v_layer", "wvs", "w_vs", "value_projection", "lin_v"),
        *("w_value", "value_linear", "v_fc", "value_layer", "to_value", "to_values", "v_map"),
        *("v_net", "v_w", "weight_v", "v_weight", "v_projection", "linear_value", "proj_value"),
    ),
    "qkv": (
        *(
            "qkv",
            "to_qkv",
            "c_attn",
            "in_proj",
            "qkv_proj",
            "wqkv",
            "w_qkv",
            "qkv_linear",
            "qkv_lin",
        ),
        *(
            "in_proj_weight",
            "attn_in",
            "proj_in",
            "packed",
            "qkv_projection",
            "fc_qkv",
            "qkv_layer",
        ),
        *(
            "query_key_value",
            "input_projection",
            "to_packed",
            "pack",
            "qkv_fc",
            "linear_qkv",
            "qkv_weight",
            "proj_qkv",
        ),
    ),
    "kv": (
        *("kv", "to_kv", "kv_proj", "wkv", "w_kv", "kv_linear", "kv_lin", "key_value", "fc_kv"),
        *("kv_projection", "to_context", "kv_layer", "c_kv", "proj_kv", "linear_kv"),
    ),
    "o": (
        *("o", "wo", "w_o", "o_proj", "out_proj", "to_out", "proj", "c_proj", "out", "output"),
        *("dense", "fc_out", "w_concat", "combine", "out_lin", "linear_out", "o_lin", "fc", "fc_o"),
        *("out_linear", "output_proj", "projection", "final", "proj_out", "linear_o", "o_linear"),
        *("output_layer", "out_layer", "unify", "unifyheads", "mix", "merge", "w_out", "out_fc"),
        *("out_projection", "output_projection", "output_linear", "to_output", "attn_out", "fc_o"),
        *("concat", "linear", "o_layer", "out_map", "o_weight", "weight_o", "back", "wout"),
    ),
}

RETURNED: Table = {
    "out": (
        *("out", "output", "context", "hidden_states", "attn_output", "last_hidden_state", "y"),
        *("hidden", "attended", "result", "values", "x", "attention_output", "mixed", "z"),
        *("context_layer", "outputs"),
    ),
    "weights": (
        *("weights", "attn", "attention", "attn_weights", "attention_weights", "probs", "p", "w"),
        *(
            "attentions",
            "attention_probs",
            "attn_probs",
            "pattern",
            "map",
            "attention_map",
            "alpha",
        ),
        *("attention_pattern", "attn_map"),
    ),
    "scores": (
        "scores",
        "logits",
        "attn_scores",
        "attention_scores",
        "sim",
        "raw_scores",
        "energy",
    ),
    "cache": (*FORWARD["cache"], "present", "present_key_value", "new_cache", "presents"),
}


def plain(name: str) -> str:
    """A name without case, underscores and digits at its end.

    >>> plain("W_Q"), plain("queryProj"), plain("to_q1")
    ('wq', 'queryproj', 'toq')
    """
    return re.sub(r"[\W_]+", "", name).lower().rstrip("0123456789") or name.lower()


def word(name: str, table: Table) -> str | None:
    """What a name means by a table, None where it is not there."""
    wanted = plain(name)
    for ours, theirs in table.items():
        if any(plain(t) == wanted for t in theirs):
            return ours
    return None


def parts(name: str) -> tuple[str, ...]:
    """The words that a name is made of.

    >>> parts("srcKey_padding_mask")
    ('src', 'key', 'padding', 'mask')
    """
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return tuple(part.lower() for part in re.split(r"[\W_]+", split) if part)


def looks_like_mask(name: str) -> bool:
    """Whether a parameter of this name takes a mask."""
    if name == "M" or any(part in ("mask", "masks") for part in parts(name)):
        return True
    return name.lower().endswith("mask") or mask_means(name) is not None


def mask_means(name: str) -> str | None:
    """What a mask of this name says: keep, hidden, additive; None where the name does not tell."""
    lower = name.lower()
    if lower in WHOLE_NAMES:
        return WHOLE_NAMES[lower]
    if "key_padding" in lower:
        return "hidden"
    for means, words in (("keep", KEEPS), ("hidden", HIDES)):
        if any(w in parts(name) or (lower.endswith("mask") and lower.startswith(w)) for w in words):
            return means
    if "mask" in parts(name) and any(w in parts(name) for w in HIDES_AS_MASK):
        return "hidden"
    return None


def is_per_item(name: str) -> bool:
    """Whether a mask of this name says which tokens of an item are real: (batch, key)."""
    lower = name.lower()
    return lower in PADS or any(part in PADS for part in parts(name))
