"""Two models side by side: the layer that was changed is found, and later ones only inherit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from attn_cli.core.results_model_diff import LayerDiff
from attn_cli.models.hf.capture import capture
from attn_cli.models.hf.loaded import LoadedModel
from attn_cli.models.hf.ways.comparing import Compared, OneSide, compare_models
from attn_cli.models.hf.ways.holding import Seen
from tests.unit.models.hf.making import drawn, made


def side(loaded: LoadedModel, given: LoadedModel) -> OneSide:
    """A model on what is drawn for another one."""
    inputs = drawn(given, 8)
    return OneSide(loaded, inputs, capture(loaded, inputs, verify=False).coverage)


def compared(left: LoadedModel, right: LoadedModel) -> Compared:
    one, two = side(left, left), side(right, left)
    return compare_models(one, two, Seen(one.coverage, one.inputs.tokens[0], ()))


def said(layers: tuple[LayerDiff, ...]) -> list[tuple[str, str | None, str | None, str | None]]:
    return [(layer.verdict, layer.first, layer.fault, layer.own_stage) for layer in layers]


@pytest.fixture
def pair(tmp_path: Path) -> tuple[LoadedModel, LoadedModel]:
    """The same model of three layers, twice."""
    left, right = (made(tmp_path, "llama", num_hidden_layers=3) for _ in range(2))
    return left, right


def change(tensor: torch.Tensor) -> None:
    with torch.no_grad():
        tensor[0] += 0.01


def test_the_same_model_is_identical(pair: tuple[LoadedModel, LoadedModel]) -> None:
    found = compared(*pair)
    assert said(found.layers) == [("identical", None, None, None)] * 3
    assert found.output is not None
    assert found.output.verdict == "identical"
    assert next(iter(found.layers[0].stages)) == "input"


def test_another_backend_is_rounding(tmp_path: Path) -> None:
    left, right = (made(tmp_path, "llama", backend=name) for name in ("sdpa", "eager"))
    found = compared(left, right)
    assert {layer.verdict for layer in found.layers} <= {"identical", "rounding"}
    assert found.layers[0].stages["q"].verdict == "identical"
    assert {layer.fault for layer in found.layers} == {None}


@pytest.mark.parametrize(
    ("name", "stage"), [("q_proj", "q"), ("v_proj", "v"), ("o_proj", "output")]
)
def test_a_changed_projection_is_that_layers_own_doing(
    pair: tuple[LoadedModel, LoadedModel], name: str, stage: str
) -> None:
    left, right = pair
    change(getattr(right.model.model.layers[1].self_attn, name).weight)
    first, second, third = compared(left, right).layers
    assert first.verdict == "identical"
    assert (second.first, second.fault, second.own_stage) == (stage, "own", stage)
    assert (third.verdict, third.fault, third.own_stage) == ("different", "inherited", None)


def test_two_faults_are_both_found(pair: tuple[LoadedModel, LoadedModel]) -> None:
    left, right = pair
    change(right.model.model.layers[0].self_attn.k_proj.weight)
    change(right.model.model.layers[2].mlp.down_proj.weight)
    faults = [(layer.fault, layer.own_stage) for layer in compared(left, right).layers]
    assert faults == [("own", "k"), ("inherited", None), ("own", "output")]


def test_a_head_behind_the_layers(pair: tuple[LoadedModel, LoadedModel]) -> None:
    left, right = pair
    change(right.model.lm_head.weight)
    found = compared(left, right)
    assert {layer.verdict for layer in found.layers} == {"identical"}
    assert found.output is not None
    assert (found.output.verdict, found.output_fault) == ("different", "own")


def test_other_embeddings_are_found_before_any_layer(
    pair: tuple[LoadedModel, LoadedModel],
) -> None:
    left, right = pair
    with torch.no_grad():
        right.model.model.embed_tokens.weight.mul_(1.5)
    first = compared(left, right).layers[0]
    assert (first.first, first.fault, first.own_stage) == ("input", "own", "input")


def test_fewer_layers_are_held_by_their_paths(tmp_path: Path) -> None:
    left = made(tmp_path / "a", "llama", num_hidden_layers=3)
    right = made(tmp_path / "b", "llama", num_hidden_layers=2)
    right.model.load_state_dict(left.model.state_dict(), strict=False)
    found = compared(left, right)
    assert [layer.where for layer in found.layers] == [
        "model.layers.0.self_attn",
        "model.layers.1.self_attn",
    ]
    assert {layer.verdict for layer in found.layers} == {"identical"}
    assert found.output is not None
    assert found.output.verdict == "different"


def test_other_heads_are_not_compared(tmp_path: Path) -> None:
    left = made(tmp_path / "a", "llama")
    right = made(tmp_path / "b", "llama", num_attention_heads=8, head_dim=8)
    q = compared(left, right).layers[0].stages["q"]
    assert q.shapes == ((1, 4, 8, 12), (1, 8, 8, 8))
    assert q.verdict == "different"


def test_an_encoder_decoder_has_both_of_its_towers(tmp_path: Path) -> None:
    left, right = (made(tmp_path, "t5") for _ in range(2))
    change(right.model.decoder.block[1].layer[1].EncDecAttention.k.weight)
    found = {layer.where: layer for layer in compared(left, right).layers}
    mine = found["decoder.block.1.layer.1.EncDecAttention"]
    assert mine.cross
    assert (mine.first, mine.fault, mine.own_stage) == ("k", "own", "k")
    before = found["decoder.block.1.layer.0.SelfAttention"]
    assert before.verdict == "identical"
    assert found["decoder.block.2.layer.0.SelfAttention"].fault == "inherited"
