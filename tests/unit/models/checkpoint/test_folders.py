"""What lies in a folder: shards, pickles, quantised tensors, old names, unknown models."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from attn_cli.errors import AttnError
from attn_cli.models.checkpoint import read_checkpoint, reader
from attn_cli.models.checkpoint.weights import read_weights
from tests.unit.models.checkpoint.building import Builder
from tests.unit.models.checkpoint.conftest import Copy
from tests.unit.models.checkpoint.damage import (
    FILE,
    INDEX,
    Tensors,
    codes,
    configure,
    edit,
    shard,
    write_index,
)

OUTPUT = "model.layers.1.self_attn.o_proj"


def test_shards_are_read_as_one_file(copy: Copy, build: Builder) -> None:
    folder = copy("llama")
    whole = read_checkpoint(str(folder))
    shard(folder, 3)
    parts = read_checkpoint(str(folder))
    assert (parts.files, parts.problems) == (3, ())
    assert (parts.layers, parts.bytes, parts.tensors) == (whole.layers, whole.bytes, whole.tensors)
    assert whole.parameters == sum(each.numel() for each in build("llama").model.parameters())
    assert whole.dtype == "float32"


def test_a_tensor_that_its_shard_lacks(copy: Copy) -> None:
    folder = copy("llama")
    name, other = shard(folder)
    places = json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"]
    write_index(folder, {**places, f"{OUTPUT}.weight": name, "model.extra.weight": name})
    problems = read_checkpoint(str(folder)).problems
    assert [problem.code for problem in problems] == ["index", "index"]
    said = {problem.tensor: problem.message for problem in problems}
    assert f"it is in '{other}'" in said[f"{OUTPUT}.weight"]
    assert "no file holds it" in said["model.extra.weight"]


def test_shards_without_an_index(copy: Copy) -> None:
    folder = copy("llama")
    shard(folder)
    (folder / INDEX).unlink()
    assert codes(read_checkpoint(str(folder))) == ["no-index"]


def test_a_pickle_is_said_not_to_be_read(copy: Copy) -> None:
    folder = copy("llama")
    (folder / FILE).rename(folder / "pytorch_model.bin")
    checkpoint = read_checkpoint(str(folder))
    (problem,) = checkpoint.problems
    assert (problem.code, problem.severity) == ("pickle", "warning")
    assert len(checkpoint.layers) == 2
    assert not checkpoint.decided
    assert "no tensors were read" in checkpoint.coverage
    (folder / "pytorch_model.bin").unlink()
    alone = read_checkpoint(str(folder))
    (problem,) = alone.problems
    assert (problem.code, problem.severity, alone.decided) == ("no-weights", "warning", False)


def test_the_precision_is_that_of_the_tensors(copy: Copy) -> None:
    folder = copy("llama")
    assert read_checkpoint(str(folder)).says == ()
    configure(folder, dtype="bfloat16")
    checkpoint = read_checkpoint(str(folder))
    assert checkpoint.dtype == "float32"
    (said,) = checkpoint.says
    assert "config.json says bfloat16" in said
    assert "float32" in said


@pytest.mark.parametrize("stored", [np.int32, np.uint8])
def test_codes_of_quantised_numbers_are_no_precision(stored: type, copy: Copy) -> None:
    folder = copy("llama")
    configure(folder, dtype="bfloat16")

    def pack(tensors: Tensors) -> None:
        for name in list(tensors):
            tensors[name] = tensors[name].astype(stored)

    edit(folder, pack)
    checkpoint = read_checkpoint(str(folder))
    assert (checkpoint.dtype, checkpoint.says) == ("bfloat16", ())


@pytest.mark.parametrize("name", ["gpt2", "bert", "llama", "vit", "t5", "bloom"])
@pytest.mark.parametrize("prefix", ["", "base.model."])
def test_any_prefix_will_do(name: str, prefix: str, copy: Copy) -> None:
    folder = copy(name)
    before = [each.geometry for each in read_checkpoint(str(folder)).layers]

    def rename(tensors: Tensors) -> None:
        for old in list(tensors):
            short = old.removeprefix("model.").removeprefix("transformer.").removeprefix("bert.")
            tensors[prefix + short] = tensors.pop(old)

    edit(folder, rename)
    checkpoint = read_checkpoint(str(folder))
    assert checkpoint.problems == ()
    assert [each.geometry for each in checkpoint.layers] == before


def test_buffers_of_published_checkpoints_are_left_alone(copy: Copy) -> None:
    folder = copy("gpt2")
    start = "transformer.h.0.attn"
    buffers = {f"{start}.bias": (1, 1, 64, 64), f"{start}.masked_bias": ()}
    edit(folder, lambda tensors: tensors.update({n: np.zeros(s) for n, s in buffers.items()}))
    assert read_checkpoint(str(folder)).problems == ()


def test_layers_of_multi_token_prediction_are_left_alone(copy: Copy) -> None:
    folder = copy("deepseek_v3")
    configure(folder, num_nextn_predict_layers=1)

    def add(tensors: Tensors) -> None:
        for name in [each for each in tensors if ".layers.1." in each]:
            tensors[name.replace(".layers.1.", ".layers.2.")] = tensors[name]

    edit(folder, add)
    assert read_checkpoint(str(folder)).problems == ()
    configure(folder, num_nextn_predict_layers=0)
    assert codes(read_checkpoint(str(folder))) == ["extra-layer"]


@pytest.mark.parametrize(
    "parts",
    [
        {"qweight": (4, 48), "qzeros": (1, 4), "scales": (1, 32), "g_idx": (48,)},  # GPTQ, AWQ
        {"weight_packed": (32, 6), "weight_scale": (32, 1), "weight_shape": (2,)},
        {"weight": (768, 1), "weight.absmax": (24,), "weight.quant_map": (16,)},  # 4 bits
        {"weight": (32, 6), "scales": (32, 1), "biases": (32, 1)},  # MLX
    ],
)
def test_quantised_tensors_are_said_and_not_accused(
    parts: dict[str, tuple[int, ...]], copy: Copy
) -> None:
    folder = copy("qwen3")

    def pack(tensors: Tensors) -> None:
        del tensors[f"{OUTPUT}.weight"]
        for name, shape in parts.items():
            tensors[f"{OUTPUT}.{name}"] = np.zeros(shape, np.uint8)

    edit(folder, pack)
    checkpoint = read_checkpoint(str(folder))
    assert checkpoint.problems == ()
    assert "1 of them is quantised" in checkpoint.coverage


def test_scales_of_fp8_are_left_alone_and_its_shapes_held(copy: Copy) -> None:
    folder = copy("deepseek_v3")
    name = "model.layers.1.self_attn.o_proj.weight_scale_inv"
    edit(folder, lambda tensors: tensors.update({name: np.ones((1, 1), np.float32)}))
    assert read_checkpoint(str(folder)).problems == ()


@pytest.mark.parametrize("name", ["llama", "gpt2", "opt", "phi3", "gpt_oss", "qwen2"])
def test_an_unknown_model_is_read_as_far_as_names_go(name: str, copy: Copy) -> None:
    folder = copy(name)
    known = read_checkpoint(str(folder))
    configure(folder, model_type="mystery")
    checkpoint = read_checkpoint(str(folder))
    assert not checkpoint.known
    assert len(checkpoint.layers) == 2
    for unknown, layer in zip(checkpoint.layers, known.layers, strict=True):
        assert unknown.geometry is not None
        assert layer.geometry is not None
        for size in ("heads", "kv_heads", "d_k", "d_v", "d_model", "d_out", "biases", "sinks"):
            assert getattr(unknown.geometry, size) == getattr(layer.geometry, size), size
        assert unknown.path.startswith(layer.path)
    assert all(problem.severity == "warning" for problem in checkpoint.problems)


def test_an_unknown_model_of_known_parts(copy: Copy) -> None:
    folder = copy("llava")
    configure(folder, model_type="mystery_vl")
    checkpoint = read_checkpoint(str(folder))
    assert not checkpoint.known
    assert checkpoint.problems == ()
    assert {layer.stack for layer in checkpoint.layers} == {"text", "vision"}


def test_seventy_billion_parameters_take_less_than_a_second(tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 8192,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "num_hidden_layers": 80,
    }
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    places: dict[str, str] = {}
    for number in range(80):
        start = f"model.layers.{number}"
        shapes = {"self_attn.q_proj": (8192, 8192), "self_attn.o_proj": (8192, 8192)}
        shapes |= {"self_attn.k_proj": (1024, 8192), "self_attn.v_proj": (1024, 8192)}
        shapes |= {"mlp.gate_proj": (28672, 8192), "mlp.up_proj": (28672, 8192)}
        file = f"model-{number:05d}-of-00080.safetensors"
        _sparse(tmp_path / file, {f"{start}.{n}.weight": shape for n, shape in shapes.items()})
        places |= {f"{start}.{name}.weight": file for name in shapes}
    write_index(tmp_path, places)
    start_time = time.perf_counter()
    checkpoint = read_checkpoint(str(tmp_path))
    assert time.perf_counter() - start_time < 1
    assert checkpoint.problems == ()
    assert (len(checkpoint.layers), checkpoint.files) == (80, 80)
    assert checkpoint.bytes == 2 * checkpoint.parameters
    assert checkpoint.dtype == "bfloat16"


def _sparse(path: Path, shapes: dict[str, tuple[int, int]]) -> None:
    """A file of bfloat16 tensors whose data is a hole."""
    header, at = {}, 0
    for name, (out, into) in shapes.items():
        end = at + 2 * out * into
        header[name] = {"dtype": "BF16", "shape": [out, into], "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)


def test_a_twin_of_a_tensor(copy: Copy) -> None:
    folder = copy("llama")
    files = shard(folder)
    save_file({f"{OUTPUT}.weight": np.zeros((2, 2), np.float32)}, folder / "other.safetensors")
    places = json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"]
    write_index(folder, {**places, "model.norm.weight": "other.safetensors"})
    assert "twice" in codes(read_checkpoint(str(folder)))
    assert len(files) == 2


# One of each kind: nothing, flags, counts, numbers that are none, text, lists, objects.
JUNK: list[object] = [None, True, 0, 10**40, 1.5, float("nan"), "\x1b[31m", [], [None]]
JUNK += [[[["global"], 2]], {"rope_type": 3, "factor": "x"}]


@pytest.mark.parametrize("name", ["gpt_neo", "gemma2", "deepseek_v3", "mystery"])
def test_any_value_may_be_junk(name: str, copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copy("gemma2" if name == "mystery" else name)
    weights = read_weights(folder)  # once: what is in question is the configuration
    monkeypatch.setattr(reader, "read_weights", lambda path: weights)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= {"model_type": name}
    for key in config:
        for junk in JUNK:
            text = json.dumps({**config, key: junk})
            (folder / "config.json").write_text(text, encoding="utf-8")
            assert _said(folder).isprintable()


def _said(folder: Path) -> str:
    """What is said of a folder, whether it can be read or not."""
    try:
        checkpoint = read_checkpoint(str(folder))
    except AttnError as error:
        return str(error)
    return checkpoint.coverage + "".join(each.message for each in checkpoint.problems)
