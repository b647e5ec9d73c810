"""Folders of tiny models of pictures and text, each with a tokenizer and its own processor."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoConfig, PreTrainedTokenizerFast

from attn_cli.models.hf.loaded import LoadedModel
from attn_cli.models.hf.loading import load
from attn_cli.models.hf.options import LoadOptions
from tests.unit.models.checkpoint.tiny_text import BERT, PLAIN, WIDE
from tests.unit.models.checkpoint.tiny_towers import VISION

Ids = Mapping[str, int]
WORDS = ("<pad>", "<s>", "</s>", "<unk>", "the", "cat", "sat", "down")
SQUARE = {"height": 16, "width": 16}
CLIP = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 16}}
CLIP["crop_size"] = SQUARE
BLIP = {"image_processor_type": "BlipImageProcessor", "size": SQUARE}
GRID = [[16, 32], [32, 16], [32, 32]]
ROOM = {"vocab_size": 64, "max_position_embeddings": 256}
TEXT = {**PLAIN, **ROOM}
CLIP_TOWER = {**VISION, "model_type": "clip_vision_model"}
SIGLIP_TOWER = {**VISION, "model_type": "siglip_vision_model"}
OPT = {
    "model_type": "opt",
    "hidden_size": 32,
    "word_embed_proj_dim": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "ffn_dim": 48,
    "pad_token_id": 0,
    **ROOM,
}
TEMPLATE = (
    "{%% for m in messages %%}User: {%% for c in m.content %%}{%% if c.type == 'image' %%}%s"
    "{%% else %%}{{ c.text }}{%% endif %%}{%% endfor %%}{%% endfor %%}"
)


@dataclass(frozen=True)
class Kind:
    """A family: its configuration from the ids of its special tokens, and its processor's files.

    `named` are the special tokens that the tokenizer knows by a role, such as image_token.
    """

    config: Callable[[Ids], dict[str, Any]]
    pictures: Mapping[str, Any]
    processor: str
    special: Sequence[str] = ("<image>",)
    named: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    template: str | None = None


def _qwen(processor: str, **tower: Any) -> Kind:
    rope = {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 1e4}
    vision = {"depth": 2, "hidden_size": 32, "num_heads": 4, "patch_size": 8, **tower}
    text = {**TEXT, "head_dim": 8, "rope_parameters": rope}
    return Kind(
        config=lambda ids: {
            "text_config": text,
            "vision_config": vision,
            "image_token_id": ids["<|image_pad|>"],
            "video_token_id": ids["<|video_pad|>"],
            "vision_start_token_id": ids["<|vision_start|>"],
            "vision_end_token_id": ids["<|vision_end|>"],
        },
        pictures={
            "image_processor_type": "Qwen2VLImageProcessor",
            "patch_size": 8,
            "size": {"shortest_edge": 512, "longest_edge": 1024},
        },
        processor=processor,
        special=("<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"),
        template=TEMPLATE % "<|vision_start|><|image_pad|><|vision_end|>",
    )


def _tiles(text: str) -> dict[str, Any]:
    """Tokens of the tiles that Idefics3 cuts a picture into."""
    return {
        "config": lambda ids: {
            "text_config": {**TEXT, "model_type": text},
            "vision_config": VISION,
            "image_token_id": ids["<image>"],
            "scale_factor": 2,
        },
        "special": (
            "<image>",
            "<fake_token_around_image>",
            "<end_of_utterance>",
            "<global-img>",
            *(f"<row_{row}_col_{col}>" for row in (1, 2) for col in (1, 2)),
        ),
    }


KINDS: dict[str, Kind] = {
    "qwen2_vl": _qwen("Qwen2VLProcessor", embed_dim=32, mlp_ratio=2),
    "qwen2_5_vl": _qwen("Qwen2_5_VLProcessor", out_hidden_size=32, intermediate_size=48),
    "qwen3_vl": _qwen(
        "Qwen3VLProcessor",
        out_hidden_size=32,
        intermediate_size=48,
        deepstack_visual_indexes=[0],
        num_position_embeddings=16,
    ),
    "llava": Kind(
        config=lambda ids: {
            "text_config": {**TEXT, "model_type": "llama"},
            "vision_config": CLIP_TOWER,
            "image_token_index": ids["<image>"],
        },
        pictures=CLIP,
        processor="LlavaProcessor",
        settings={
            "patch_size": 8,
            "vision_feature_select_strategy": "default",
            "num_additional_image_tokens": 1,
        },
        template=TEMPLATE % "<image>\n",
    ),
    "llava_next": Kind(
        config=lambda ids: {
            "text_config": {**TEXT, "model_type": "mistral"},
            "vision_config": CLIP_TOWER,
            "image_token_index": ids["<image>"],
            "image_grid_pinpoints": GRID,
        },
        pictures={
            **CLIP,
            "image_processor_type": "LlavaNextImageProcessor",
            "image_grid_pinpoints": GRID,
        },
        processor="LlavaNextProcessor",
        settings={
            "patch_size": 8,
            "vision_feature_select_strategy": "default",
            "num_additional_image_tokens": 1,
        },
    ),
    "llava_onevision": Kind(
        config=lambda ids: {
            "text_config": {**TEXT, "model_type": "qwen2"},
            "vision_config": SIGLIP_TOWER,
            "image_token_index": ids["<image>"],
            "video_token_index": ids["<video>"],
            "image_grid_pinpoints": GRID,
            "vision_feature_select_strategy": "full",
        },
        pictures={
            "image_processor_type": "LlavaOnevisionImageProcessor",
            "size": SQUARE,
            "image_grid_pinpoints": GRID,
        },
        processor="LlavaOnevisionProcessor",
        special=("<image>", "<video>"),
        settings={"num_image_tokens": 4, "vision_feature_select_strategy": "full"},
    ),
    "idefics3": Kind(
        pictures={
            "image_processor_type": "Idefics3ImageProcessor",
            "size": {"longest_edge": 32},
            "max_image_size": {"longest_edge": 16},
        },
        processor="Idefics3Processor",
        settings={"image_seq_len": 1},
        **_tiles("llama"),
    ),
    "paligemma": Kind(
        config=lambda ids: {
            "text_config": {**TEXT, **WIDE, "model_type": "gemma"},
            "vision_config": SIGLIP_TOWER,
            "projection_dim": 32,
            "image_token_index": ids["<image>"],
        },
        pictures={
            "image_processor_type": "SiglipImageProcessor",
            "size": SQUARE,
            "image_seq_length": 4,
        },
        processor="PaliGemmaProcessor",
        named={"image_token": "<image>"},
    ),
    "gemma3": Kind(
        config=lambda ids: {
            "text_config": {**TEXT, **WIDE, "sliding_window": 8},
            "vision_config": VISION,
            "mm_tokens_per_image": 4,
            "image_token_index": ids["<soft>"],
            "boi_token_index": ids["<boi>"],
            "eoi_token_index": ids["<eoi>"],
        },
        pictures={"image_processor_type": "Gemma3ImageProcessor", "size": SQUARE},
        processor="Gemma3Processor",
        special=("<boi>", "<eoi>", "<soft>"),
        named={"boi_token": "<boi>", "eoi_token": "<eoi>", "image_token": "<soft>"},
        settings={"image_seq_length": 4},
    ),
    "internvl": Kind(
        config=lambda ids: {
            "text_config": {**TEXT, "model_type": "qwen2"},
            "vision_config": {**VISION, "image_size": [16, 16], "patch_size": [8, 8]},
            "image_seq_length": 1,
            "image_token_id": ids["<context>"],
        },
        pictures={
            "image_processor_type": "GotOcr2ImageProcessor",
            "size": SQUARE,
            "crop_to_patches": True,
            "max_patches": 4,
        },
        processor="InternVLProcessor",
        special=("<img>", "</img>", "<context>", "<video>"),
        named={
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<context>",
            "video_token": "<video>",
        },
        settings={"image_seq_length": 1},
    ),
    "mllama": Kind(
        config=lambda ids: {
            "text_config": {
                **TEXT,
                "model_type": "mllama_text_model",
                "num_hidden_layers": 3,
                "cross_attention_layers": [1],
                "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
            },
            "vision_config": {
                **VISION,
                "num_hidden_layers": 2,
                "num_global_layers": 1,
                "attention_heads": 4,
                "vision_output_dim": 64,
                "max_num_tiles": 2,
                "intermediate_layers_indices": [1],
                "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1]],
            },
            "image_token_index": ids["<|image|>"],
        },
        pictures={
            "image_processor_type": "MllamaImageProcessor",
            "size": SQUARE,
            "max_image_tiles": 2,
        },
        processor="MllamaProcessor",
        special=("<|image|>", "<|python_tag|>"),
    ),
    "blip-2": Kind(
        config=lambda ids: {
            "text_config": OPT,
            "vision_config": VISION,
            "qformer_config": {**BERT, "encoder_hidden_size": 32},
            "num_query_tokens": 4,
            "image_token_index": ids["<image>"],
        },
        pictures=BLIP,
        processor="Blip2Processor",
        settings={"num_query_tokens": 4},
    ),
    "clip": Kind(
        config=lambda ids: {"text_config": {**BERT, **ROOM}, "vision_config": VISION},
        pictures=CLIP,
        processor="CLIPProcessor",
        special=(),
    ),
    "vilt": Kind(
        config=lambda ids: {**BERT, **ROOM, "image_size": 16, "patch_size": 8},
        pictures={
            "image_processor_type": "ViltImageProcessor",
            "size": {"shortest_edge": 16},
            "size_divisor": 8,
        },
        processor="ViltProcessor",
        special=(),
    ),
}


def picture_folder(root: Path, name: str) -> Path:
    """A folder of the family with config.json, a tokenizer and the settings of a processor."""
    kind = KINDS[name]
    ids = {word: number for number, word in enumerate((*WORDS, *kind.special))}
    words = Tokenizer(models.WordLevel(ids, "<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made: Any = PreTrainedTokenizerFast
    more = {"extra_special_tokens": dict(kind.named)} if kind.named else {}
    tokenizer = made(
        tokenizer_object=words,
        unk_token="<unk>",
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        additional_special_tokens=list(kind.special) or None,
        **more,
    )
    tokenizer.chat_template = kind.template
    tokenizer.save_pretrained(root)
    settings = {"preprocessor_config.json": kind.pictures, "processor_config.json": kind.settings}
    for file, values in settings.items():
        (root / file).write_text(json.dumps({**values, "processor_class": kind.processor}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what transformers finds odd in tiny configurations
        AutoConfig.for_model(name, **kind.config(ids)).save_pretrained(root)
    return root


def picture_model(root: Path, name: str) -> LoadedModel:
    """The family with random weights, always the same ones."""
    source = str(picture_folder(root, name))
    return load(LoadOptions(source=source, random_weights=True, seed=1))


def picture(root: Path, height: int = 20, width: int = 30) -> str:
    """A file with a picture of random colours."""
    colours = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(colours).save(root / "picture.png")
    return str(root / "picture.png")


def same(made: Mapping[str, torch.Tensor], right: Mapping[str, torch.Tensor]) -> None:
    """Asserts that two inputs have the same tensors under the same names."""
    assert made.keys() == right.keys()
    for name, tensor in right.items():
        torch.testing.assert_close(made[name], tensor, rtol=0, atol=0)
