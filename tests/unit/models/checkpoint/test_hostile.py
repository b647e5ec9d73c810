"""Folders that are no checkpoints, or want to be read where they should not: one clear sentence."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from attn_cli.errors import InputError
from attn_cli.models.checkpoint import read_checkpoint
from tests.unit.models.checkpoint.damage import FILE, INDEX, codes, write_index

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
}


def folder_of(path: Path, config: object = CONFIG) -> Path:
    """A folder with a configuration and a layer of Llama that fits CONFIG."""
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    square = np.zeros((8, 8), np.float32)
    start = "model.layers.0.self_attn"
    save_file({f"{start}.{n}_proj.weight": square for n in "qkvo"}, path / FILE)
    return path


def refused(folder: Path) -> InputError:
    """The error for a folder: a line that can be printed."""
    with pytest.raises(InputError) as caught:
        read_checkpoint(str(folder))
    assert str(caught.value).isprintable()
    assert str(caught.value).count(str(folder).replace("\0", "\\x00")) == 1
    return caught.value


def test_the_folder_itself_is_fine(tmp_path: Path) -> None:
    assert read_checkpoint(str(folder_of(tmp_path))).problems == ()


def test_no_folder(tmp_path: Path) -> None:
    assert "no such folder" in refused(tmp_path / "missing").message
    assert "is not a folder" in refused(folder_of(tmp_path) / "config.json").message
    assert "no folder can have this name" in refused(Path("a\0b")).message


def test_no_configuration(tmp_path: Path) -> None:
    assert refused(tmp_path).hint == "the folder is empty"
    (tmp_path / FILE).write_bytes(b"x")
    assert FILE in refused(tmp_path).hint


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "empty"),
        ("[1, 2]", "no object"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"hidden_size": ' + "9" * 5000 + "}", "not valid JSON"),
        ("\x00\x01\x02", "not valid JSON"),
        ('{"num_attention_heads": 2, "num_attention_heads": 4}', "occurs twice"),
        ('{"text_config": {"head_dim": 2, "head_dim": 4}}', "occurs twice"),
    ],
)
def test_a_configuration_that_is_no_object(text: str, said: str, tmp_path: Path) -> None:
    (folder_of(tmp_path) / "config.json").write_text(text, encoding="utf-8")
    assert said in refused(tmp_path).message


@pytest.mark.parametrize(
    "field, value",
    [
        ("num_attention_heads", "2"),
        ("num_attention_heads", -1),
        ("num_attention_heads", 0),
        ("num_attention_heads", 2.0),
        ("num_attention_heads", True),
        ("num_attention_heads", [2]),
        ("num_hidden_layers", 10**9),
        ("hidden_size", 10**30),
        ("head_dim", "\x1b[31m"),
        ("attention_bias", "yes"),
        ("num_key_value_heads", {}),
    ],
)
def test_a_field_that_is_no_size(field: str, value: object, tmp_path: Path) -> None:
    error = refused(folder_of(tmp_path, {**CONFIG, field: value}))
    assert field in error.message
    assert "expected" in error.message


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "gemma2", "layer_types": ["full_attention"]},
        {"model_type": "gemma2", "layer_types": [3] * 26},
        {"model_type": "gemma2", "layer_types": ["\x1b[2J"] * 26},
        {"model_type": "gemma2", "layer_types": "full_attention"},
        {"model_type": "gemma2", "query_pre_attn_scalar": -4},
        {"model_type": "gemma2", "query_pre_attn_scalar": "4"},
        {"model_type": "gpt_neo", "attention_types": [3]},
        {"model_type": "nemotron_h", "hybrid_override_pattern": "M?"},
        {"model_type": "llava", "text_config": [1]},
        {"model_type": "mpt", "attn_config": {"softmax_scale": "x"}},
    ],
)
def test_settings_of_another_kind(config: dict[str, Any], tmp_path: Path) -> None:
    refused(folder_of(tmp_path, config))


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": 7},
        {"model_type": ["llama"]},
        {},
        {"architectures": "x"},
        {"architectures": [None]},
        {"model_type": "\x1b[31m"},
        {"model_type": "x" * 10_000},
        {"num_attention_heads": "x"},
        {"num_attention_heads": 3, "head_dim": 0},
    ],
)
def test_an_odd_configuration_is_an_unknown_one(config: dict[str, Any], tmp_path: Path) -> None:
    checkpoint = read_checkpoint(str(folder_of(tmp_path, config)))
    assert not checkpoint.known
    assert checkpoint.model_type.isprintable()
    assert len(checkpoint.says) == 1
    assert checkpoint.says[0].isprintable()
    assert all(problem.message.isprintable() for problem in checkpoint.problems)


def test_a_misspelt_model_type_is_guessed_at(tmp_path: Path) -> None:
    (said,) = read_checkpoint(str(folder_of(tmp_path, {**CONFIG, "model_type": "lama"}))).says
    assert "'lama' is not known (did you mean llama?)" in said


@pytest.mark.parametrize(
    "file",
    [
        "../model.safetensors",
        "/etc/passwd",
        "a/b.safetensors",
        "..",
        "",
        "x.bin",
        "a\\b.safetensors",
        "a\0.safetensors",
        3,
        None,
    ],
)
def test_an_index_that_leads_elsewhere(file: object, tmp_path: Path) -> None:
    write_index(folder_of(tmp_path), {"model.layers.0.self_attn.q_proj.weight": file})
    assert INDEX in refused(tmp_path).message


@pytest.mark.parametrize("index", ["{}", '{"weight_map": []}', '{"weight_map": {}}', "3"])
def test_an_index_without_a_map(index: str, tmp_path: Path) -> None:
    (folder_of(tmp_path) / INDEX).write_text(index, encoding="utf-8")
    refused(tmp_path)


@pytest.mark.parametrize("name", ["config.json", FILE, INDEX])
def test_links_that_lead_back_to_themselves(name: str, tmp_path: Path) -> None:
    folder_of(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).symlink_to(name)
    assert name in refused(tmp_path).message


@pytest.mark.parametrize("name", ["config.json", FILE])
def test_a_pipe_is_not_waited_for(name: str, tmp_path: Path) -> None:
    folder_of(tmp_path)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    assert "not a regular file" in refused(tmp_path).message


def test_links_of_a_cache_are_followed(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshot").mkdir()
    folder_of(tmp_path / "blobs")
    for name in ("config.json", FILE):
        (tmp_path / "snapshot" / name).symlink_to(Path("..") / "blobs" / name)
    assert read_checkpoint(str(tmp_path / "snapshot")).problems == ()


def test_a_header_of_names_that_want_to_be_slow(tmp_path: Path) -> None:
    folder_of(tmp_path)
    names = ["." * 50_000, "layers." * 9_000 + "0.self_attn.q_proj.weight", "9" * 5000]
    save_file({name: np.zeros(1, np.float32) for name in names}, tmp_path / FILE)
    start = time.perf_counter()
    checkpoint = read_checkpoint(str(tmp_path))
    assert time.perf_counter() - start < 5
    assert "missing-tensor" in codes(checkpoint)
