"""Tiny models whose heads tell keys apart, and every order in which weights can be dealt out."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attn_cli.models.hf.inputs import ModelInputs, inputs_of_ids
from attn_cli.models.hf.loaded import LoadedModel
from tests.unit.models.hf.making import made

Array = NDArray[Any]

ROWS = ((5, 9, 30, 12), (7, 31, 22))  # two texts, the second one padded


def sharp(root: Path, name: str) -> LoadedModel:
    """A family with drawn weights, its queries made long."""
    loaded = made(root, name, backend="eager")
    with torch.no_grad():
        for path, module in loaded.model.named_modules():
            if path.endswith(("q_proj", "query", "q_lin")):
                module.weight.mul_(60)
    return loaded


def two_texts(loaded: LoadedModel) -> ModelInputs:
    return inputs_of_ids(loaded, ROWS)


def eager(loaded: LoadedModel, inputs: ModelInputs) -> list[Array]:
    """(B, H, L, S) a layer, as transformers returns them."""
    with torch.no_grad():
        said = loaded.model(**inputs.tensors, output_attentions=True)
    return [layer.double().numpy() for layer in said.attentions]


def orders(row: Array) -> Array:
    """Every order of a row's numbers, one below the other."""
    return np.array(list(permutations(row)))


def real_of(inputs: ModelInputs) -> Any:
    """The queries that are no padding."""
    mask = np.asarray(inputs.tensors["attention_mask"]) != 0
    return lambda facts: mask
