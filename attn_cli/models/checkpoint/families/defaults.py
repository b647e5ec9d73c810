"""What each family assumes for a field that config.json does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def _sized(
    hidden: int, layers: int, heads: int, kv_heads: int | None = None, **more: Any
) -> dict[str, Any]:
    """The fields of most configurations, and others by their names."""
    sizes = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
    grouped = {} if kv_heads is None else {"num_key_value_heads": kv_heads}
    return sizes | grouped | more


def _all(names: str, values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return dict.fromkeys(names.split(), values)


# As the configuration classes of transformers have them: the fields that are read, but none that is
# false there or follows from others. A test holds every entry against its class.
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    **_all("llama olmo olmo2 flex_olmo apertus granitemoehybrid", _sized(4096, 32, 32)),
    "mistral": _sized(4096, 32, 32, 8, sliding_window=4096),
    "ministral3": _sized(4096, 34, 32, 8, head_dim=128),
    **_all("mixtral phimoe bamba falcon_h1 minimax", _sized(4096, 32, 32, 8)),
    "qwen2": _sized(4096, 32, 32, 32, max_window_layers=28, sliding_window=4096),
    "qwen2_moe": _sized(2048, 24, 16, 16, max_window_layers=28, qkv_bias=True, sliding_window=4096),
    "qwen3": _sized(4096, 32, 32, 32, head_dim=128, max_window_layers=28, sliding_window=4096),
    "qwen3_moe": _sized(2048, 24, 32, 4, sliding_window=4096),
    "gemma": _sized(3072, 28, 16, 16, head_dim=256),
    **_all(
        "gemma2 vaultgemma",
        _sized(
            2304,
            26,
            8,
            4,
            attn_logit_softcapping=50.0,
            head_dim=256,
            query_pre_attn_scalar=256,
            sliding_window=4096,
        ),
    ),
    "gemma3_text": _sized(
        2304, 26, 8, 4, head_dim=256, query_pre_attn_scalar=256, sliding_window=4096
    ),
    "olmo3": _sized(4096, 32, 32, sliding_window=4096),
    "olmoe": _sized(2048, 16, 16),
    "cohere": _sized(8192, 40, 64),
    "cohere2": _sized(8192, 40, 64, sliding_window=4096),
    **_all("granite granitemoe", _sized(4096, 32, 32, attention_multiplier=1.0)),
    "starcoder2": _sized(3072, 30, 24, 2, use_bias=True),
    "stablelm": _sized(2560, 32, 32, 32),
    "smollm3": _sized(2048, 36, 16, 4),
    "phi": _sized(2048, 24, 32),
    "gpt_oss": _sized(2880, 36, 64, 8, attention_bias=True, head_dim=64, sliding_window=128),
    "llama4_text": _sized(5120, 48, 40, 8, attention_chunk_size=8192, head_dim=128),
    **_all("glm glm4", _sized(4096, 40, 32, 2, attention_bias=True, head_dim=128)),
    "glm4_moe": _sized(4096, 46, 96, 8),
    "exaone4": _sized(4096, 32, 32, 32, sliding_window=4096),
    "ernie4_5": _sized(1024, 18, 16, 2, head_dim=128),
    "ernie4_5_moe": _sized(2560, 28, 20, 4),
    "helium": _sized(2560, 24, 20, 20, head_dim=128),
    "arcee": _sized(2560, 32, 32),
    "nemotron": _sized(6144, 32, 48),
    "bitnet": _sized(2560, 30, 20, 5),
    "seed_oss": _sized(4096, 64, 80, 8, attention_bias=True, head_dim=128),
    "minimax_m2": _sized(3072, 62, 48, 8, head_dim=128),
    "opt": _sized(768, 12, 12, enable_bias=True),
    **_all("biogpt megatron-bert pixtral", _sized(1024, 24, 16)),
    "xglm": {"attention_heads": 16, "d_model": 1024, "num_layers": 24},
    **_all(
        "bert roberta xlm-roberta camembert ernie data2vec-text layoutlm splinter "
        "roberta-prelayernorm roformer mpnet eurobert clip_vision_model siglip_text_model "
        "siglip_vision_model wav2vec2 hubert unispeech-sat unispeech nomic_bert",
        _sized(768, 12, 12),
    ),
    "xlm-roberta-xl": _sized(2560, 36, 32),
    "electra": _sized(256, 12, 4),
    "rembert": _sized(1152, 32, 18),
    "esm": _sized(768, 12, 12, position_embedding_type="absolute"),
    "albert": _sized(4096, 12, 64, num_hidden_groups=1),
    "distilbert": {"dim": 768, "n_heads": 12, "n_layers": 6},
    "deberta-v2": _sized(1536, 24, 24),
    **_all(
        "vit deit vit_mae vit_msn dinov2 dinov2_with_registers ijepa",
        _sized(768, 12, 12, qkv_bias=True),
    ),
    "dinov3_vit": _sized(384, 12, 6, proj_bias=True, query_bias=True, value_bias=True),
    "clip_text_model": _sized(512, 12, 8),
    "idefics3_vision": _sized(1152, 12, 16),
    "qwen2_vl_vision": {"depth": 32, "embed_dim": 1280, "num_heads": 16},
    "qwen2_5_vl_vision": {
        "depth": 32,
        "fullatt_block_indexes": [7, 15, 23, 31],
        "hidden_size": 3584,
        "num_heads": 16,
    },
    "qwen3_vl_vision": {"depth": 27, "hidden_size": 1152, "num_heads": 16},
    "gpt2": {"n_embd": 768, "n_head": 12, "n_layer": 12, "scale_attn_weights": True},
    "openai-gpt": {"n_embd": 768, "n_head": 12, "n_layer": 12},
    "gpt_bigcode": {
        "multi_query": True,
        "n_embd": 768,
        "n_head": 12,
        "n_layer": 12,
        "scale_attn_weights": True,
    },
    "gpt_neo": {
        "attention_types": [[["global", "local"], 12]],
        "hidden_size": 2048,
        "num_heads": 16,
        "num_layers": 24,
        "window_size": 256,
    },
    "gpt_neox": _sized(6144, 44, 64, attention_bias=True),
    **_all("gptj codegen", {"n_embd": 4096, "n_head": 16, "n_layer": 28}),
    "bloom": {"hidden_size": 64, "n_head": 8, "n_layer": 2},
    "falcon": _sized(4544, 32, 71, multi_query=True),
    "mpt": {"attn_config": {"alibi": True}, "d_model": 2048, "n_heads": 16, "n_layers": 24},
    "phi3": _sized(3072, 32, 32),
    "persimmon": _sized(4096, 36, 64),
    **_all("modernbert-decoder modernbert", _sized(768, 22, 12, local_attention=128)),
    "jamba": _sized(4096, 32, 32, 8, attn_layer_offset=4, attn_layer_period=8),
    "nemotron_h": {
        "head_dim": 128,
        "hidden_size": 4096,
        "layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"],
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    },
    "lfm2": _sized(2560, 32, 32, 8),
    "recurrent_gemma": _sized(
        2560,
        26,
        10,
        attention_window_size=2048,
        block_types=["recurrent", "recurrent", "attention"],
    ),
    "qwen3_next": _sized(2048, 48, 16, 2, head_dim=256),
    "qwen3_5_text": _sized(4096, 32, 16, 4, head_dim=256),
    "qwen3_5_moe_text": _sized(2048, 40, 16, 2, head_dim=256),
    "olmo_hybrid": _sized(3840, 32, 30),
    **_all("mamba falcon_mamba rwkv", {"num_hidden_layers": 32}),
    "mamba2": {"num_hidden_layers": 64},
    "deepseek_v2": _sized(
        4096,
        32,
        32,
        kv_lora_rank=512,
        q_lora_rank=1536,
        qk_nope_head_dim=128,
        qk_rope_head_dim=64,
        v_head_dim=128,
    ),
    **_all(
        "deepseek_v3 deepseek_v32",
        _sized(
            7168,
            61,
            128,
            kv_lora_rank=512,
            q_lora_rank=1536,
            qk_nope_head_dim=128,
            qk_rope_head_dim=64,
            v_head_dim=128,
        ),
    ),
    "glm4_moe_lite": _sized(
        2048,
        47,
        20,
        kv_lora_rank=512,
        q_lora_rank=768,
        qk_nope_head_dim=192,
        qk_rope_head_dim=64,
        v_head_dim=256,
    ),
    "glm_moe_dsa": _sized(
        6144,
        78,
        64,
        kv_lora_rank=512,
        q_lora_rank=2048,
        qk_nope_head_dim=192,
        qk_rope_head_dim=64,
        v_head_dim=256,
    ),
    "minicpm3": _sized(
        2560, 62, 40, kv_lora_rank=256, q_lora_rank=768, qk_nope_head_dim=64, qk_rope_head_dim=32
    ),
    "t5": {"d_kv": 64, "d_model": 512, "num_heads": 8, "num_layers": 6},
    **_all("mt5 umt5", {"d_kv": 64, "d_model": 512, "num_heads": 6, "num_layers": 8}),
    "switch_transformers": {
        "d_kv": 64,
        "d_model": 768,
        "num_decoder_layers": 12,
        "num_heads": 12,
        "num_layers": 12,
    },
    **_all(
        "bart mbart marian pegasus m2m_100",
        {
            "d_model": 1024,
            "decoder_attention_heads": 16,
            "decoder_layers": 12,
            "encoder_attention_heads": 16,
            "encoder_layers": 12,
        },
    ),
    "plbart": {
        "d_model": 768,
        "decoder_attention_heads": 12,
        "decoder_layers": 6,
        "encoder_attention_heads": 12,
        "encoder_layers": 6,
    },
    "blenderbot": {
        "d_model": 2560,
        "decoder_attention_heads": 32,
        "decoder_layers": 24,
        "encoder_attention_heads": 32,
        "encoder_layers": 2,
    },
    "blenderbot-small": {
        "d_model": 512,
        "decoder_attention_heads": 16,
        "decoder_layers": 8,
        "encoder_attention_heads": 16,
        "encoder_layers": 8,
    },
    "whisper": {
        "d_model": 384,
        "decoder_attention_heads": 6,
        "decoder_layers": 4,
        "encoder_attention_heads": 6,
        "encoder_layers": 4,
    },
}
