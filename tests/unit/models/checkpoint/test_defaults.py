"""What a family assumes of a silent config.json is what its class in transformers assumes."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import pytest

from attn_cli.core.geometry import LayerGeometry
from attn_cli.models.checkpoint.families import FAMILIES
from attn_cli.models.checkpoint.parts import parts_of
from attn_cli.models.checkpoint.stack_reader import read_stack
from attn_cli.models.checkpoint.weights import Weights

# Part of a configuration → where transformers keeps its class.
NESTED = {
    "qwen2_vl_vision": ("qwen2_vl", "vision_config"),
    "qwen2_5_vl_vision": ("qwen2_5_vl", "vision_config"),
    "qwen3_vl_vision": ("qwen3_vl", "vision_config"),
    "idefics3_vision": ("idefics3", "vision_config"),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_silence_is_read_as_the_class_reads_it(name: str) -> None:
    said = _class_defaults(name)
    assert _layers({"model_type": name}) == _layers({**said, "model_type": name})


def test_null_is_no_silence() -> None:
    direct = _layers({"model_type": "deepseek_v3", "q_lora_rank": None})[0].geometry
    assert direct is not None
    assert direct.latent is not None
    assert direct.latent.q_rank is None


def _layers(config: dict[str, Any]) -> list[LayerGeometry]:
    parts, unread = parts_of(config)
    assert unread == []
    readings = [read_stack(part.stack, part.fields, Weights()) for part in parts]
    return [layer for reading in readings for layer in reading.layers]


def _class_defaults(name: str) -> dict[str, Any]:
    transformers = import_module("transformers")
    transformers.utils.logging.set_verbosity_error()  # of special tokens beyond a vocabulary
    whole, part = NESTED.get(name, (name, ""))
    config = transformers.CONFIG_MAPPING[whole]()
    values = getattr(config, part) if part else config
    said: dict[str, Any] = json.loads(values.to_json_string(use_diff=False))
    return said
