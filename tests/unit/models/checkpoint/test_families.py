"""Every family that is known is read as its own model says, and nothing right is accused."""

from __future__ import annotations

import numpy as np
import pytest

from attn_cli.core.geometry import LayerGeometry
from attn_cli.formats.safetensors_file import read_header
from attn_cli.models.checkpoint import read_checkpoint
from attn_cli.models.checkpoint.families import COMPOSITES, FAMILIES
from tests.unit.models.checkpoint.building import CONFIGS, Builder
from tests.unit.models.checkpoint.tiny_text import TEXT, VARIANTS
from tests.unit.models.checkpoint.truth import attended, scale_of, truth

LENGTH = 24
# Encoders with decoders give attentions of two towers; Mamba and RWKV have none; MiniMax gives the
# states of its linear layers as attentions.
NO_WEIGHTS = ("mamba", "falcon_mamba", "mamba2", "rwkv", "minimax", "switch_transformers")
UNSEEN = [
    name
    for name, given in {**TEXT, **VARIANTS}.items()
    if name in NO_WEIGHTS or "decoder_layers" in given or "num_decoder_layers" in given
]
MASKED = [name for name in (*TEXT, *VARIANTS) if name not in UNSEEN]
SCALED_BEFORE = ("esm",)  # q is divided by √d_k before it is turned; `scaling` is then 1


def test_every_family_is_built() -> None:
    built = {name.partition(":")[0] for name in CONFIGS}
    parts = {"idefics3_vision", "qwen2_vl_vision", "qwen2_5_vl_vision", "qwen3_vl_vision"}
    nested = {"siglip_text_model", "qwen3_5_moe_text"}
    assert {*FAMILIES, *COMPOSITES} == built | parts | nested


@pytest.mark.parametrize("name", CONFIGS)
def test_a_right_checkpoint_has_no_problems(name: str, build: Builder) -> None:
    checkpoint = read_checkpoint(str(build(name).folder))
    assert checkpoint.problems == ()
    assert checkpoint.known
    assert checkpoint.model_type == build(name).model.config.model_type
    assert checkpoint.layers


@pytest.mark.parametrize("name", CONFIGS)
def test_sizes_are_those_of_the_modules(name: str, build: Builder) -> None:
    built = build(name)
    for layer in _attention(built.folder):
        geometry, real = layer.geometry, truth(built, layer)
        assert geometry is not None
        assert (geometry.heads, geometry.kv_heads) == (real.heads, real.kv_heads)
        assert geometry.d_k == real.d_k
        assert geometry.heads * geometry.d_v == real.into_o
        assert geometry.d_out == geometry.d_model == real.out_of_o
        assert geometry.biases == real.biases
        if real.scale is not None and name not in SCALED_BEFORE:
            np.testing.assert_allclose(scale_of(layer), real.scale, rtol=1e-9)


@pytest.mark.parametrize("name", MASKED)
def test_masks_are_those_that_the_model_attends_by(name: str, build: Builder) -> None:
    built = build(name)
    layers = _attention(built.folder)
    weights = attended(built, LENGTH)
    assert len(weights) == len(layers)
    for layer, seen in zip(layers, weights, strict=True):
        assert layer.geometry is not None
        np.testing.assert_array_equal((seen > 0).all(axis=0), _mask(layer), err_msg=layer.path)
        assert len(seen) == layer.geometry.heads


def test_softcap_sinks_and_latents(build: Builder) -> None:
    gemma = _attention(build("gemma2").folder)[0].geometry
    oss = _attention(build("gpt_oss").folder)[0].geometry
    deepseek = _attention(build("deepseek_v3").folder)[0].geometry
    assert gemma is not None
    assert oss is not None
    assert deepseek is not None
    assert gemma.softcap == build("gemma2").model.model.layers[0].self_attn.attn_logit_softcapping
    assert oss.sinks
    assert not gemma.sinks
    assert deepseek.latent is not None
    module = build("deepseek_v3").model.model.layers[0].self_attn
    assert deepseek.latent.q_rank == module.q_lora_rank
    assert deepseek.latent.kv_rank == module.kv_lora_rank
    assert deepseek.latent.d_rope == module.qk_rope_head_dim
    assert deepseek.latent.d_nope == module.qk_nope_head_dim
    direct = _attention(build("deepseek_v3:direct").folder)[0].geometry
    assert direct is not None
    assert direct.latent is not None
    assert direct.latent.q_rank is None


@pytest.mark.parametrize(
    "name, kinds",
    [
        ("jamba", [("state-space", "mamba"), ("softmax", "self_attn")]),
        ("bamba", [("state-space", "mamba"), ("softmax", "self_attn")]),
        ("nemotron_h", [("state-space", "mixer"), ("softmax", "mixer")]),
        ("qwen3_next", [("linear", "linear_attn"), ("softmax", "self_attn")]),
        ("lfm2", [("convolution", "conv"), ("softmax", "self_attn")]),
        ("recurrent_gemma", [("state-space", "temporal_block"), ("softmax", "temporal_block")]),
        ("mamba", [("state-space", "mixer"), ("state-space", "mixer")]),
        ("falcon_h1", [("softmax", "self_attn"), ("state-space", "mamba")] * 2),
    ],
)
def test_layers_that_are_no_attention(
    name: str, kinds: list[tuple[str, str]], build: Builder
) -> None:
    folder = build(name).folder
    layers = read_checkpoint(str(folder)).layers
    names = list(read_header(folder / "model.safetensors"))
    assert [(layer.kind, layer.path.rpartition(".")[2]) for layer in layers] == kinds
    for layer in layers:
        assert any(name.startswith(f"{layer.path}.") for name in names)
        assert (layer.geometry is None) == (layer.kind != "softmax")


def test_cross_attention_and_towers(build: Builder) -> None:
    layers = read_checkpoint(str(build("t5").folder)).layers
    assert [layer.stack for layer in layers] == ["encoder"] * 2 + ["decoder"] * 6
    crossed = [layer.geometry.cross for layer in layers if layer.geometry is not None]
    assert crossed == [False] * 2 + [False, True] * 3
    assert {layer.stack for layer in read_checkpoint(str(build("clip").folder)).layers} == {
        "text",
        "vision",
    }


def test_layers_that_share_their_weights(build: Builder) -> None:
    paths = [layer.path for layer in read_checkpoint(str(build("albert").folder)).layers]
    assert [path.split(".")[2] for path in paths] == ["0", "0", "1", "1"]


def test_positions(build: Builder) -> None:
    expected = {
        "llama": {"rope"},
        "gpt2": {"learned"},
        "bloom": {"alibi"},
        "t5": {"relative", None},
        "jamba": {None},
        "cohere2": {"rope", None},
        "llama4_text": {"rope", None},
        "falcon": {"rope"},
        "falcon:all-heads": {"alibi"},
        "distilbert:sinusoidal": {"sinusoidal"},
    }
    for name, words in expected.items():
        layers = _attention(build(name).folder)
        assert {each.geometry.positions for each in layers if each.geometry} == words, name


def _attention(folder: object) -> list[LayerGeometry]:
    return [each for each in read_checkpoint(str(folder)).layers if each.kind == "softmax"]


def _mask(layer: LayerGeometry) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """True where the geometry lets a query attend to a key."""
    assert layer.geometry is not None
    query, key = np.arange(LENGTH)[:, None], np.arange(LENGTH)
    mask = np.ones((LENGTH, LENGTH), dtype=bool)
    if layer.geometry.causal:
        mask &= key <= query
    if layer.geometry.window is not None:
        mask &= abs(query - key) < layer.geometry.window
    if layer.geometry.chunk is not None:
        mask &= query // layer.geometry.chunk == key // layer.geometry.chunk
    return mask
