"""The smallest configurations of every family of text, with sizes that all differ."""

from __future__ import annotations

from typing import Any

TOKENS: dict[str, Any] = {
    "vocab_size": 40,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
PLAIN: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    **TOKENS,
}
BERT = {key: value for key, value in PLAIN.items() if key != "num_key_value_heads"}
EXPERTS = {
    "num_local_experts": 2,
    "num_experts": 2,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 16,
}
GPT2 = {
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "vocab_size": 40,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SEQ2SEQ = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "decoder_start_token_id": 1,
    **TOKENS,
}
T5 = {
    "d_model": 32,
    "d_kv": 12,
    "d_ff": 48,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 4,
    "vocab_size": 40,
}
SPARSE = {"num_experts": 2, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1}
LATENT = {
    **PLAIN,
    "num_key_value_heads": 4,
    "q_lora_rank": 12,
    "kv_lora_rank": 10,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
}
LATENT_EXPERTS = {
    **LATENT,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 2,
    "topk_group": 1,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 1,
}
INDEXER = {"index_n_heads": 2, "index_head_dim": 8, "index_topk": 64}
MAMBA2 = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1, "mamba_d_state": 4}
DELTA = {
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
WIDE = {"head_dim": 12}
SLIDING = {"sliding_window": 8}


def _all(names: str, *configs: dict[str, Any]) -> dict[str, dict[str, Any]]:
    merged: dict[str, Any] = {}
    for config in configs:
        merged |= config
    return {name: dict(merged) for name in names.split()}


# model_type → what is given to its configuration; "name:variant" for a second one of a family.
TEXT: dict[str, dict[str, Any]] = {
    **_all("llama mistral ministral3 gemma qwen3 apertus glm glm4", PLAIN, WIDE),
    **_all("seed_oss ernie4_5 olmo3 exaone4 bitnet arcee nemotron", PLAIN, {"head_dim": 8}),
    **_all("qwen2 olmo olmo2 cohere granite starcoder2 stablelm smollm3", PLAIN),
    **_all("phi phi3 persimmon eurobert modernbert-decoder", PLAIN),
    **_all("helium", PLAIN, {"head_dim": 8}),
    **_all("gemma2 gemma3_text vaultgemma", PLAIN, WIDE, SLIDING, {"query_pre_attn_scalar": 20}),
    **_all("cohere2", PLAIN, SLIDING, {"num_hidden_layers": 4}),
    **_all("mixtral qwen2_moe qwen3_moe granitemoe olmoe phimoe flex_olmo", PLAIN, EXPERTS),
    **_all("glm4_moe minimax_m2 ernie4_5_moe minimax", PLAIN, EXPERTS, {"head_dim": 8}),
    **_all("gpt_oss", PLAIN, EXPERTS, WIDE, SLIDING),
    **_all(
        "llama4_text",
        PLAIN,
        EXPERTS,
        {
            "head_dim": 8,
            "intermediate_size_mlp": 48,
            "attention_chunk_size": 6,
            "num_hidden_layers": 4,
        },
    ),
    **_all("bert roberta xlm-roberta camembert electra ernie megatron-bert rembert", BERT),
    **_all("xlm-roberta-xl roberta-prelayernorm", BERT),
    **_all("data2vec-text layoutlm splinter roformer deberta-v2 mpnet", BERT),
    **_all("esm", BERT, {"pad_token_id": 1, "position_embedding_type": "rotary"}),
    **_all("albert", BERT, {"embedding_size": 16, "num_hidden_layers": 4, "num_hidden_groups": 2}),
    **_all("nomic_bert biogpt gpt_neox falcon", BERT),
    **_all("modernbert", BERT, {"local_attention": 8}),
    **_all("distilbert", {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}, TOKENS),
    **_all("gpt2 openai-gpt gpt_bigcode", GPT2),
    **_all("gptj codegen", GPT2, {"rotary_dim": 4}),
    **_all(
        "gpt_neo",
        {
            "hidden_size": 32,
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 8,
        },
        TOKENS,
    ),
    **_all("opt", BERT, {"ffn_dim": 48, "word_embed_proj_dim": 32}),
    **_all("xglm", {"d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 48}, TOKENS),
    **_all("bloom", {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 40}),
    **_all("mpt", {"d_model": 32, "n_layers": 2, "n_heads": 4, "vocab_size": 40}),
    **_all("t5 mt5 umt5", T5),
    **_all("switch_transformers", T5, SPARSE),
    **_all("bart mbart plbart marian pegasus blenderbot blenderbot-small m2m_100", SEQ2SEQ),
    **_all("deepseek_v2 deepseek_v3 glm4_moe_lite", LATENT_EXPERTS),
    **_all("deepseek_v32 glm_moe_dsa", LATENT_EXPERTS, INDEXER),
    **_all("minicpm3", LATENT),
    **_all(
        "jamba",
        PLAIN,
        EXPERTS,
        {
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "mamba_d_state": 4,
            "mamba_dt_rank": 4,
            "use_mamba_kernels": False,
        },
    ),
    **_all("bamba", PLAIN, MAMBA2, {"attn_layer_indices": [1]}),
    **_all("falcon_h1", PLAIN, MAMBA2, {"mamba_d_ssm": 64}),
    **_all(
        "granitemoehybrid",
        PLAIN,
        EXPERTS,
        MAMBA2,
        {"layer_types": ["mamba", "attention"], "shared_intermediate_size": 16},
    ),
    **_all(
        "nemotron_h",
        PLAIN,
        {
            "hybrid_override_pattern": "M*",
            "head_dim": 8,
            "mamba_num_heads": 8,
            "mamba_head_dim": 8,
            "n_groups": 1,
            "ssm_state_size": 4,
        },
    ),
    **_all("lfm2", PLAIN, {"layer_types": ["conv", "full_attention"]}),
    **_all(
        "recurrent_gemma",
        PLAIN,
        {"block_types": ["recurrent", "attention"], "lru_width": 32, "attention_window_size": 8},
    ),
    **_all("qwen3_next", PLAIN, EXPERTS, DELTA, WIDE, {"shared_expert_intermediate_size": 16}),
    **_all("qwen3_5_text", PLAIN, DELTA, WIDE),
    **_all("olmo_hybrid", PLAIN, DELTA),
    **_all("mamba falcon_mamba", {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 40}),
    **_all(
        "mamba2",
        {"hidden_size": 32, "num_hidden_layers": 2, "num_heads": 8, "head_dim": 8, "n_groups": 1},
        {"vocab_size": 40},
    ),
    **_all(
        "rwkv",
        {"hidden_size": 32, "num_hidden_layers": 2, "attention_hidden_size": 32},
        {"vocab_size": 40, "intermediate_size": 48},
    ),
}

# Second configurations of families whose fields change what their tensors are.
VARIANTS: dict[str, dict[str, Any]] = {
    **_all("llama:biased cohere:biased granite:biased", PLAIN, {"attention_bias": True}),
    **_all("starcoder2:plain", PLAIN, {"use_bias": False}),
    **_all("stablelm:biased", PLAIN, {"use_qkv_bias": True, "qk_layernorm": True}),
    **_all("cohere:normed", PLAIN, {"use_qk_norm": True}),
    **_all("glm4_moe:normed", PLAIN, EXPERTS, {"head_dim": 8, "use_qk_norm": True}),
    **_all("phi:normed", PLAIN, {"qk_layernorm": True}),
    **_all("qwen2:sliding", PLAIN, SLIDING, {"use_sliding_window": True, "max_window_layers": 1}),
    **_all("mistral:full", PLAIN, {"sliding_window": None}),
    **_all("mistral:sliding", PLAIN, SLIDING),
    **_all("phi3:sliding", PLAIN, SLIDING),
    **_all("gpt2:by-layer", GPT2, {"scale_attn_by_inverse_layer_idx": True}),
    **_all("gpt2:unscaled", GPT2, {"scale_attn_weights": False}),
    **_all("gpt_bigcode:all-heads", GPT2, {"multi_query": False}),
    **_all("falcon:all-heads", BERT, {"multi_query": False, "bias": True, "alibi": True}),
    **_all("falcon:grouped", BERT, {"new_decoder_architecture": True, "num_kv_heads": 2}),
    **_all("gpt_neox:plain", BERT, {"attention_bias": False}),
    **_all("opt:plain", BERT, {"ffn_dim": 48, "word_embed_proj_dim": 32, "enable_bias": False}),
    **_all("deepseek_v3:direct", LATENT_EXPERTS, {"q_lora_rank": None, "attention_bias": True}),
    **_all(
        "deepseek_v3:stretched",
        LATENT_EXPERTS,
        {
            "rope_scaling": {
                "type": "yarn",
                "factor": 40,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
                "original_max_position_embeddings": 32,
                "beta_fast": 32,
                "beta_slow": 1,
            }
        },
    ),
    **_all(
        "deberta-v2:relative",
        BERT,
        {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "share_att_key": False},
    ),
    **_all("bert:decoder", BERT, {"is_decoder": True}),
    **_all(
        "distilbert:sinusoidal",
        {"dim": 32, "n_layers": 2, "n_heads": 4},
        TOKENS,
        {"sinusoidal_pos_embds": True, "hidden_dim": 48},
    ),
}
