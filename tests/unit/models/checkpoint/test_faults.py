"""A fault planted into a checkpoint of every family is named, by layer, tensor and field."""

from __future__ import annotations

import re

import numpy as np
import pytest

from attn_cli.errors import InputError
from attn_cli.models.checkpoint import read_checkpoint
from tests.unit.models.checkpoint.building import CONFIGS
from tests.unit.models.checkpoint.conftest import Copy
from tests.unit.models.checkpoint.damage import (
    FILE,
    Tensors,
    codes,
    configure,
    edit,
    matrix_of_last_layer,
    shard,
)
from tests.unit.models.checkpoint.test_families import NO_WEIGHTS

ATTENDING = [name for name in CONFIGS if name not in NO_WEIGHTS[:4] and ":" not in name]
DOZEN = (
    "bert",
    "gpt2",
    "llama",
    "qwen3",
    "gemma2",
    "gpt_oss",
    "deepseek_v3",
    "t5",
    "vit",
    "jamba",
    "bamba",
    "qwen3_next",
    "clip",
)


@pytest.mark.parametrize("name", ATTENDING)
def test_a_matrix_of_another_shape(name: str, copy: Copy) -> None:
    folder = copy(name)
    tensor = matrix_of_last_layer(folder)
    square = False

    def turn(tensors: Tensors) -> None:
        nonlocal square
        square = tensors[tensor].shape[0] == tensors[tensor].shape[1]
        whole = tensors[tensor]
        tensors[tensor] = np.ascontiguousarray(whole[:-1] if square else whole.T)

    edit(folder, turn)
    (problem,) = read_checkpoint(str(folder)).problems
    assert (problem.code, problem.tensor, problem.file) == ("wrong-shape", tensor, FILE)
    assert problem.layer is not None
    assert tensor.startswith(f"{problem.layer}.")
    assert ("transposed" in problem.message) == (not square)
    assert problem.field


@pytest.mark.parametrize("name", ATTENDING)
def test_a_tensor_that_is_missing(name: str, copy: Copy) -> None:
    folder = copy(name)
    tensor = matrix_of_last_layer(folder)
    edit(folder, lambda tensors: tensors.__delitem__(tensor))
    (problem,) = read_checkpoint(str(folder)).problems
    assert (problem.code, problem.tensor) == ("missing-tensor", tensor)
    assert problem.field is not None


@pytest.mark.parametrize("name", ATTENDING)
def test_a_layer_too_many(name: str, copy: Copy) -> None:
    folder = copy(name)
    configure(folder, num_nextn_predict_layers=0)  # such layers stand behind the last
    tensor = matrix_of_last_layer(folder)
    number = re.search(r"\.(\d+)\.", tensor)
    assert number is not None
    start = tensor[: number.start()]
    behind = ""

    def add(tensors: Tensors) -> None:
        nonlocal behind
        last = max(int(found[1]) for found in _numbers(start, tensors))
        behind = f"{start}.{last + 1}"
        for each in [name for name in tensors if name.startswith(f"{start}.{number[1]}.")]:
            tensors[behind + each.removeprefix(f"{start}.{number[1]}")] = tensors[each]

    edit(folder, add)
    (problem,) = read_checkpoint(str(folder)).problems
    assert problem.code == "extra-layer"
    assert problem.layer is not None
    assert problem.layer.startswith(behind)
    assert problem.field


@pytest.mark.parametrize("name", DOZEN)
def test_a_shard_that_is_missing(name: str, copy: Copy) -> None:
    folder = copy(name)
    files = shard(folder)
    assert read_checkpoint(str(folder)).problems == ()
    (folder / files[1]).unlink()
    checkpoint = read_checkpoint(str(folder))
    (problem,) = checkpoint.problems
    assert (problem.code, problem.file) == ("missing-shard", files[1])
    assert checkpoint.files == 1


@pytest.mark.parametrize("name", DOZEN)
def test_a_file_that_is_cut_off(name: str, copy: Copy) -> None:
    folder = copy(name)
    content = (folder / FILE).read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    for length in (4, header // 2, len(content) - 1):
        (folder / FILE).write_bytes(content[:length])
        with pytest.raises(InputError, match=re.escape(FILE)):
            read_checkpoint(str(folder))


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma2", "gpt_oss", "jamba", "bamba"])
def test_key_value_heads_that_do_not_divide(name: str, copy: Copy) -> None:
    folder = copy(name)
    configure(folder, num_key_value_heads=3)
    problem = read_checkpoint(str(folder)).problems[0]
    assert (problem.code, problem.field) == ("kv-heads", "num_key_value_heads")
    assert "1, 2 would" in problem.message


@pytest.mark.parametrize(
    "name, field", [("bert", "num_attention_heads"), ("gpt2", "n_head"), ("vit", None)]
)
def test_heads_that_do_not_divide(name: str, field: str | None, copy: Copy) -> None:
    folder = copy(name)
    configure(folder, **{field or "num_attention_heads": 5})
    problem = next(iter(read_checkpoint(str(folder)).problems))
    assert (problem.code, problem.field) == ("heads", field or "num_attention_heads")
    assert "1, 2, 4, 8, 16, 32 would" in problem.message


def test_a_width_that_is_not_cut_evenly_is_rounded_in_words_too(copy: Copy) -> None:
    folder = copy("bert")
    configure(folder, num_attention_heads=5)
    said = [problem.message for problem in read_checkpoint(str(folder)).problems]
    assert any(
        "(30, 32) = (num_attention_heads · (hidden_size // num_attention_heads))" in each
        for each in said
    )


def test_a_count_of_layers_that_is_too_small_is_asked_about(copy: Copy) -> None:
    folder = copy("llama")
    configure(folder, num_hidden_layers=1)
    (problem,) = read_checkpoint(str(folder)).problems
    assert "num_hidden_layers counts 1 layer: is it 2?" in problem.message


def test_the_sentence_for_a_transposed_output(copy: Copy) -> None:
    folder = copy("qwen3")

    def turn(tensors: Tensors) -> None:
        name = "model.layers.1.self_attn.o_proj.weight"
        tensors[name] = np.ascontiguousarray(tensors[name].T)

    edit(folder, turn)
    (problem,) = read_checkpoint(str(folder)).problems
    assert problem.message == (
        "model.layers.1.self_attn: o_proj.weight is (48, 32): expected (32, 48) = "
        "hidden_size × num_attention_heads · head_dim; it looks transposed"
    )


def test_a_bias_that_the_configuration_denies(copy: Copy) -> None:
    folder = copy("llama")
    name = "model.layers.0.self_attn.q_proj.bias"
    edit(folder, lambda tensors: tensors.update({name: np.zeros(48, np.float32)}))
    (problem,) = read_checkpoint(str(folder)).problems
    assert (problem.code, problem.severity) == ("extra-tensor", "error")
    assert (problem.tensor, problem.field) == (name, "attention_bias")


def test_biases_that_the_configuration_wants(copy: Copy) -> None:
    folder = copy("llama")
    configure(folder, attention_bias=True)
    problems = read_checkpoint(str(folder)).problems
    assert len(problems) == 8
    assert {problem.field for problem in problems} == {"attention_bias"}


def test_a_layer_that_the_file_lacks(copy: Copy) -> None:
    folder = copy("llama")
    configure(folder, num_hidden_layers=3)
    (problem,) = read_checkpoint(str(folder)).problems
    assert problem.code == "missing-tensor"
    assert problem.layer == "model.layers.2.self_attn"
    assert "none of its tensors" in problem.message


def test_a_state_space_layer_that_the_file_lacks(copy: Copy) -> None:
    folder = copy("mamba")
    configure(folder, num_hidden_layers=3)
    (problem,) = read_checkpoint(str(folder)).problems
    assert (problem.code, problem.layer) == ("missing-layer", "backbone.layers.2")


def test_layers_of_another_kind_than_said(copy: Copy) -> None:
    folder = copy("qwen3_next")
    configure(folder, layer_types=["full_attention", "linear_attention"])
    assert "missing-tensor" in codes(read_checkpoint(str(folder)))


def test_another_head_dim_is_wrong_everywhere(copy: Copy) -> None:
    folder = copy("qwen3")
    configure(folder, head_dim=16)
    problems = read_checkpoint(str(folder)).problems
    assert {problem.code for problem in problems} == {"wrong-shape"}
    assert len(problems) == 12  # q, k, v, o and the two norms of two layers


def _numbers(start: str, tensors: Tensors) -> list[re.Match[str]]:
    """The numbers of the layers below a path."""
    found = (re.match(rf"{re.escape(start)}\.(\d+)\.", name) for name in tensors)
    return [match for match in found if match is not None]
