"""Folders of tiny configurations, and the weights that the family's own eager function returns."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from attn_cli.core.model_calls import CallFacts
from attn_cli.core.statistics import Array
from attn_cli.models.hf.inputs import ModelInputs
from attn_cli.models.hf.loaded import LoadedModel
from attn_cli.models.hf.loading import load
from attn_cli.models.hf.options import InputOptions, LoadOptions
from attn_cli.models.hf.reading import read_inputs
from tests.unit.models.checkpoint.building import CONFIGS
from tests.unit.models.checkpoint.tiny_text import PLAIN, WIDE
from tests.unit.models.checkpoint.tiny_towers import VISION

PICTURE = {"image_token_id": 39, "image_token_index": 39}
MORE: dict[str, dict[str, Any]] = {
    "llava": {
        "text_config": {**PLAIN, "model_type": "llama"},
        "vision_config": {**VISION, "model_type": "clip_vision_model"},
        **PICTURE,
    },
    "paligemma": {
        "text_config": {**PLAIN, **WIDE, "model_type": "gemma"},
        "vision_config": {**VISION, "model_type": "siglip_vision_model"},
        "projection_dim": 32,
        **PICTURE,
    },
    "gemma3": {
        "text_config": {**PLAIN, **WIDE, "sliding_window": 8},
        "vision_config": VISION,
        "mm_tokens_per_image": 4,
        **PICTURE,
    },
}


def folder_of(root: Path, name: str, **more: Any) -> str:
    """A folder with the config.json of a family and nothing else."""
    given = {**(MORE.get(name) or CONFIGS.get(name, {})), **more}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what transformers finds odd in tiny configurations
        transformers.AutoConfig.for_model(name.partition(":")[0], **given).save_pretrained(root)
    return str(root)


def made(root: Path, name: str, *, backend: str | None = None, **more: Any) -> LoadedModel:
    """A family with random weights, always the same ones."""
    source = folder_of(root, name, **more)
    return load(LoadOptions(source=source, random_weights=True, seed=1, backend=backend))


def drawn(loaded: LoadedModel, length: int = 12) -> ModelInputs:
    return read_inputs(loaded, InputOptions(drawn=length))


def eager_weights(loaded: LoadedModel, inputs: ModelInputs) -> dict[str, list[Array]]:
    """What the model returns for output_attentions, by side, in order of the layers.

    A tower of pictures beside a text does not hand its weights out, so it is asked alone.
    """
    torch.manual_seed(0)  # what is drawn in a forward, as attn seeds it
    with torch.no_grad():
        out = loaded.model(**inputs.tensors, output_attentions=True)
        sides = {side: getattr(out, f"{side}_attentions", None) for side in ("cross", "encoder")}
        sides["decoder"] = getattr(out, "decoder_attentions", None)
        sides["text"] = getattr(out, "attentions", None)
        for side in ("text", "vision"):
            if tower := getattr(out, f"{side}_model_output", None):
                sides[side] = tower.attentions
        tower = getattr(getattr(loaded.model, "model", None), "vision_tower", None)
        if tower is not None:
            pixels = inputs.tensors["pixel_values"]
            sides["vision"] = tower(pixels, output_attentions=True).attentions
    return {
        side: [_array(w) for w in all_of if w is not None]
        for side, all_of in sides.items()
        if all_of
    }


def side_of(facts: CallFacts) -> str:
    """The side that a call is on, by the names of `eager_weights`."""
    if facts.cross:
        return "cross"
    named = {"vision": "vision", "text_model": "text", "encoder": "encoder", "decoder": "decoder"}
    return next((side for word, side in named.items() if word in facts.stack), "text")


def _array(weights: torch.Tensor) -> Array:
    return np.asarray(weights.float())
