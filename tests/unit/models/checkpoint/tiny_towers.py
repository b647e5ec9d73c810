"""The smallest configurations of the families of pictures and sound, and of models of models."""

from __future__ import annotations

from typing import Any

from tests.unit.models.checkpoint.tiny_text import BERT, PLAIN, SEQ2SEQ, SLIDING, WIDE

VISION: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "image_size": 16,
    "patch_size": 8,
}
SOUND = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "conv_dim": (32,),
    "conv_stride": (2,),
    "conv_kernel": (3,),
    "num_feat_extract_layers": 1,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
}
QWEN = {"depth": 3, "hidden_size": 32, "num_heads": 4, "out_hidden_size": 32}

TOWERS: dict[str, dict[str, Any]] = {
    **{
        name: dict(VISION)
        for name in (
            "vit",
            "deit",
            "vit_mae",
            "vit_msn",
            "dinov2",
            "dinov2_with_registers",
            "ijepa",
            "dinov3_vit",
            "clip_vision_model",
            "siglip_vision_model",
            "pixtral",
        )
    },
    **{name: dict(SOUND) for name in ("wav2vec2", "hubert", "unispeech", "unispeech-sat")},
    "clip_text_model": dict(BERT),
    "vit:plain": {**VISION, "qkv_bias": False},
    "whisper": {
        **SEQ2SEQ,
        "num_mel_bins": 8,
        "max_source_positions": 32,
        "max_target_positions": 32,
    },
    "clip": {"text_config": BERT, "vision_config": VISION, "projection_dim": 16},
    "siglip": {"text_config": BERT, "vision_config": VISION},
    "llava": {
        "text_config": {**PLAIN, "model_type": "llama"},
        "vision_config": {**VISION, "model_type": "clip_vision_model"},
    },
    "llava_next": {
        "text_config": {**PLAIN, "model_type": "mistral"},
        "vision_config": {**VISION, "model_type": "clip_vision_model"},
    },
    "paligemma": {
        "text_config": {**PLAIN, **WIDE, "model_type": "gemma"},
        "vision_config": {**VISION, "model_type": "siglip_vision_model"},
    },
    "gemma3": {"text_config": {**PLAIN, **WIDE, **SLIDING}, "vision_config": VISION},
    "mistral3": {
        "text_config": {**PLAIN, **WIDE, "model_type": "mistral"},
        "vision_config": {**VISION, "model_type": "pixtral"},
    },
    "idefics3": {
        "text_config": {**PLAIN, "model_type": "llama"},
        "vision_config": VISION,
    },
    "qwen2_vl": {
        "text_config": PLAIN,
        "vision_config": {"depth": 3, "embed_dim": 32, "hidden_size": 32, "num_heads": 4},
    },
    "qwen2_5_vl": {"text_config": PLAIN, "vision_config": {**QWEN, "intermediate_size": 48}},
    "qwen3_vl": {
        "text_config": {**PLAIN, **WIDE},
        "vision_config": {**QWEN, "intermediate_size": 48, "deepstack_visual_indexes": [0]},
    },
}
