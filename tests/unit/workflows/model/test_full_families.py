"""The full view of families that differ in their attention: sinks, low rank, bias, own softmax."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from attn_cli.core.results_model import ModelReport
from attn_cli.models.hf.loading import load
from attn_cli.models.hf.options import InputOptions, LoadOptions
from attn_cli.models.hf.reading import read_inputs
from attn_cli.workflows.model.report import model
from tests.unit.workflows.model.tiny import options

Array = NDArray[Any]
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 60}
CONFIGS: dict[str, dict[str, Any]] = {
    "gpt_oss": {
        **SIZES,
        "architectures": ["GptOssForCausalLM"],
        "intermediate_size": 16,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "num_local_experts": 4,
        "sliding_window": 4,
        "initializer_range": 0.3,
        "pad_token_id": 0,
    },
    "deepseek_v3": {
        **SIZES,
        "architectures": ["DeepseekV3ForCausalLM"],
        "intermediate_size": 32,
        "num_key_value_heads": 4,
        "kv_lora_rank": 16,
        "q_lora_rank": 12,
        "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 8,
        "v_head_dim": 6,
        "first_k_dense_replace": 2,
        "initializer_range": 0.3,
        "pad_token_id": 0,
    },
    "bloom": {
        "architectures": ["BloomForCausalLM"],
        "hidden_size": 32,
        "n_layer": 2,
        "n_head": 4,
        "vocab_size": 60,
        "initializer_range": 0.3,
    },
    "t5": {
        "architectures": ["T5ForConditionalGeneration"],
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 32,
        "num_layers": 2,
        "num_heads": 4,
        "vocab_size": 60,
        "decoder_start_token_id": 0,
    },
}
OWN = {  # the names under which transformers returns the weights of each tower, as they run
    "t5": ("encoder_attentions", "decoder_attentions", "cross_attentions"),
}


def folder(root: Path, family: str) -> str:
    config = {"model_type": family, **CONFIGS[family]}
    (root / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return str(root)


def report(source: str, layer: int, head: int) -> ModelReport:
    given = InputOptions(drawn=8)
    return model(
        options(
            load=LoadOptions(source=source, random_weights=True, backend="eager"),
            given=given,
            layers=(layer,),
            heads=(head,),
        )
    )


def own(source: str, family: str, layer: int, head: int) -> list[Array]:
    """The weights of every tower, asked of transformers."""
    loaded = load(LoadOptions(source=source, random_weights=True, backend="eager"))
    inputs = read_inputs(loaded, InputOptions(drawn=8))
    with torch.no_grad():
        said = loaded.model(**inputs.tensors, output_attentions=True)
    towers = [said[name] for name in OWN.get(family, ("attentions",))]
    return [tower[layer][0, head].double().numpy() for tower in towers]


@pytest.mark.parametrize("family", CONFIGS)
def test_weights_are_the_models_own(family: str, tmp_path: Path) -> None:
    source = folder(tmp_path, family)
    views = report(source, 1, 2).views
    expected = own(source, family, 1, 2)
    assert len(views) == len(expected)
    for view, weights in zip(views, expected, strict=True):
        np.testing.assert_allclose(view.run.views[0].cells, weights, atol=3e-6)
        if view.facts.how == "softmax":
            assert np.isnan(view.context_gap)
        else:
            assert view.context_gap < 1e-5


def test_a_sink_is_said_and_its_share_missing(tmp_path: Path) -> None:
    (view,) = report(folder(tmp_path, "gpt_oss"), 1, 2).views
    (weights,) = [step for step in view.run.shapes if step.stage == "weights"]
    assert weights.formula == "softmax over key, a sink in the denominator"
    assert (view.run.views[0].sums < 1).all()


def test_low_rank_projections_are_stages_of_their_own(tmp_path: Path) -> None:
    (view,) = report(folder(tmp_path, "deepseek_v3"), 1, 2).views
    steps = {step.stage: step.formula for step in view.run.shapes}
    assert list(steps)[:7] == [
        "x",
        "q_a_proj",
        "q_a_layernorm",
        "q_b_proj",
        "kv_a_proj_with_mqa",
        "kv_a_layernorm",
        "kv_b_proj",
    ]
    assert (steps["q_a_proj"], steps["kv_b_proj"]) == ("32 → 12", "16 → 56")
    assert list(steps)[-1] == "o_proj"


def test_a_position_bias_is_a_stage_and_cross_attention_a_view(tmp_path: Path) -> None:
    views = report(folder(tmp_path, "t5"), 1, 2).views
    stages = [[step.stage for step in view.run.shapes] for view in views]
    assert ["biased" in names for names in stages[:2]] == [True, True]
    assert [view.facts.cross for view in views] == [False, False, True]
    assert "q.weight" in stages[0]  # T5 calls its projection q, as attn calls what it makes


def test_seen_at_its_softmax_a_call_has_masked_scores_and_weights(tmp_path: Path) -> None:
    (view,) = report(folder(tmp_path, "bloom"), 1, 2).views
    stages = [step.stage for step in view.run.shapes]
    assert stages == ["x", "query_key_value", "masked", "weights", "dense"]
