"""Faults planted into a checkpoint's folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from attn_cli.core.checkpoint import Checkpoint
from attn_cli.models.checkpoint import read_checkpoint

Tensors = dict[str, np.ndarray[tuple[int, ...], np.dtype[Any]]]

FILE = "model.safetensors"
INDEX = "model.safetensors.index.json"
NOT_HELD = re.compile(r"indexer|relative_attention_bias|rg_lru|norm|pos_(key|query)_proj")


def edit(folder: Path, change: Callable[[Tensors], None]) -> None:
    """Writes the tensors again after a change to them."""
    tensors = load_file(folder / FILE)
    change(tensors)
    save_file(tensors, folder / FILE)


def configure(folder: Path, **values: Any) -> None:
    """Writes config.json again with other values."""
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | values), encoding="utf-8")


def shard(folder: Path, files: int = 2) -> list[str]:
    """Cuts the one file into shards with an index; their names."""
    tensors = load_file(folder / FILE)
    (folder / FILE).unlink()
    names = [f"model-{n + 1:05d}-of-{files:05d}.safetensors" for n in range(files)]
    places = {name: names[i * files // len(tensors)] for i, name in enumerate(sorted(tensors))}
    for file in names:
        save_file({n: tensors[n] for n in tensors if places[n] == file}, folder / file)
    write_index(folder, places)
    return names


def write_index(folder: Path, places: Mapping[str, Any]) -> None:
    """An index of tensors and their files."""
    text = json.dumps({"metadata": {}, "weight_map": places})
    (folder / INDEX).write_text(text, encoding="utf-8")


def matrix_of_last_layer(folder: Path) -> str:
    """The name of a matrix of the last layer of softmax attention, not square if any is."""
    path = [each.path for each in read_checkpoint(str(folder)).layers if each.kind == "softmax"][-1]
    matrices = {
        name: array
        for name, array in load_file(folder / FILE).items()
        if name.startswith(f"{path}.")
        and array.ndim == 2
        and not NOT_HELD.search(name[len(path) :])
    }
    return min(matrices, key=lambda name: (len(set(matrices[name].shape)) == 1, name))


def codes(checkpoint: Checkpoint) -> list[str]:
    """The codes of what does not fit."""
    return [problem.code for problem in checkpoint.problems]
