"""Models of models: a tower for text and one for pictures, each with a configuration of its own."""

from __future__ import annotations

from collections.abc import Mapping

from attn_cli.models.checkpoint.family import TEXT, Parts

PICTURES = r"(vision|visual|image)"


def _two(text: str, vision: str) -> Parts:
    return Parts(
        {"text_config": ("text", TEXT, text), "vision_config": ("vision", PICTURES, vision)}
    )


COMPOSITES: Mapping[str, Parts] = {
    "clip": _two("clip_text_model", "clip_vision_model"),
    "siglip": _two("siglip_text_model", "siglip_vision_model"),
    "llava": _two("llama", "clip_vision_model"),
    "llava_next": _two("llama", "clip_vision_model"),
    "paligemma": _two("gemma", "siglip_vision_model"),
    "gemma3": _two("gemma3_text", "siglip_vision_model"),
    "mistral3": _two("mistral", "pixtral"),
    "idefics3": _two("llama", "idefics3_vision"),
    "qwen2_vl": _two("qwen2", "qwen2_vl_vision"),
    "qwen2_5_vl": _two("qwen2", "qwen2_5_vl_vision"),
    "qwen3_vl": _two("qwen3", "qwen3_vl_vision"),
}

# Names that parts of these configurations have for what is a family under another name.
ALIASES: Mapping[str, str] = {
    "clip_text": "clip_text_model",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
    "qwen2_vl": "qwen2_vl_vision",
    "qwen2_5_vl": "qwen2_5_vl_vision",
    "qwen3_vl": "qwen3_vl_vision",
    "idefics3": "idefics3_vision",
}
