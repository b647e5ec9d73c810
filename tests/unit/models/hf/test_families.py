"""Families of every kind: the output stays, and weights are the family's own eager weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attn_cli.core.statistics import Array
from attn_cli.models.hf.capture import Capture, capture
from attn_cli.models.hf.loaded import LoadedModel
from attn_cli.models.hf.stage_keeper import StageKeeper
from tests.unit.models.hf.making import drawn, eager_weights, made, side_of

DECODERS = (
    "llama mistral:sliding qwen2:sliding gemma2 gemma3_text gpt_oss gpt2 gpt2:by-layer gptj "
    "gpt_neox opt phi3 cohere2 olmo2 qwen3_moe llama4_text deepseek_v2 "
    "deepseek_v3:stretched deepseek_v32 bert:decoder gpt_bigcode modernbert-decoder"
)
OWN_SOFTMAX = "falcon falcon:grouped bloom mpt gpt_neo deberta-v2:relative xglm openai-gpt mpnet"
HYBRIDS = "jamba bamba falcon_h1 nemotron_h qwen3_next olmo_hybrid recurrent_gemma lfm2"
ENCODERS = "bert roberta distilbert electra albert esm modernbert"
PAIRS = "t5 bart umt5"
PICTURES = "vit dinov2_with_registers siglip_vision_model pixtral clip llava paligemma gemma3"
SOUND = "whisper wav2vec2"
FAMILIES = " ".join((DECODERS, OWN_SOFTMAX, HYBRIDS, ENCODERS, PAIRS, PICTURES, SOUND)).split()
EXACT = 2e-6  # of a weight: PyTorch's kernel and eager layers before it round otherwise


def seen(loaded: LoadedModel) -> tuple[Capture, dict[str, list[Array]]]:
    """A capture, and the weights of its calls by side."""
    keeper = StageKeeper(("weights",))
    result = capture(loaded, drawn(loaded), [keeper])
    sides: dict[str, list[Array]] = {}
    for facts in result.coverage.calls:
        sides.setdefault(side_of(facts), []).append(keeper.kept[facts.place]["weights"])
    return result, sides


@pytest.mark.parametrize("name", FAMILIES)
def test_weights_are_those_of_the_eager_function(name: str, tmp_path: Path) -> None:
    result, sides = seen(made(tmp_path, name))
    eager = made(tmp_path, name, backend="eager")
    expected = eager_weights(eager, drawn(eager))
    if len(sides) == 1 and len(expected) == 1:  # one tower, whatever its modules are called
        sides = dict(zip(expected, sides.values(), strict=True))
    assert result.check is not None
    assert result.check.verdict == "identical"
    assert {side: len(all_of) for side, all_of in sides.items()} == {
        side: len(all_of) for side, all_of in expected.items()
    }
    for side, all_of in expected.items():
        for weights, right in zip(sides[side], all_of, strict=True):
            np.testing.assert_allclose(weights, right, rtol=1e-4, atol=EXACT)


def test_every_kind_is_there() -> None:
    assert len(FAMILIES) == len(set(FAMILIES)) >= 25


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("llama", "all 2 layers are softmax attention"),
        ("qwen3_next", "1 of 2 layers is softmax attention; 1 is gated delta-net and has no"),
        ("jamba", "1 of 2 layers is softmax attention; 1 is mamba and has no weights"),
        ("lfm2", "1 of 2 layers is softmax attention; 1 is short convolution and has no"),
        ("falcon_h1", "all 2 layers are softmax attention; 2 of them beside mamba-2"),
        ("mamba2", "0 of 2 layers are softmax attention; 2 are mamba-2 and have no weights"),
        ("rwkv", "0 of 2 layers are softmax attention; 2 are RWKV and have no weights"),
        ("minimax", "1 of 2 layers is softmax attention; 1 is lightning attention and has no"),
        ("whisper", "all 5 layers are softmax attention; 8 calls were seen"),
        ("bloom", "2 calls were seen at the softmax: scores and weights, no q, k, v"),
        ("falcon", "2 calls were seen at scaled_dot_product_attention"),
    ],
)
def test_coverage_says_what_layers_are(name: str, sentence: str, tmp_path: Path) -> None:
    loaded = made(tmp_path, name)
    coverage = capture(loaded, drawn(loaded), verify=False).coverage
    assert sentence in coverage.sentence


def test_the_softmax_of_a_router_is_no_attention(tmp_path: Path) -> None:
    loaded = made(tmp_path, "qwen3_moe")
    coverage = capture(loaded, drawn(loaded), verify=False).coverage
    assert coverage.elsewhere == ("model.layers.0.mlp.gate", "model.layers.1.mlp.gate")


def test_alibi_of_falcon_is_shown_as_its_backend_computes_it(tmp_path: Path) -> None:
    """transformers adds another ALiBi in eager Falcon than in its SDPA; each is shown as it is."""
    _, kernel = seen(made(tmp_path, "falcon:all-heads"))
    eager = made(tmp_path, "falcon:all-heads", backend="eager")
    _, own = seen(eager)
    right = eager_weights(eager, drawn(eager))["text"]
    np.testing.assert_allclose(own["text"], right, rtol=1e-5)
    assert np.abs(np.array(kernel["text"]) - np.array(right)).max() > 1e-3
