"""What the modules of transformers say of their own sizes, and do with their masks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from attn_cli.core.geometry import LayerGeometry
from tests.unit.models.checkpoint.building import Built

HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head")
D_K = (
    "qk_head_dim",
    "head_dim",
    "attention_head_size",
    "key_value_proj_dim",
    "dim_per_head",
    "head_size",
)
KV_HEADS = ("num_kv_heads", "num_key_value_heads", "kv_heads")
SCALE = ("scaling", "scale", "softmax_scale", "inv_norm_factor")
VISION = re.compile("vision|visual")


@dataclass(frozen=True)
class Truth:
    """One attention module of a real model."""

    heads: int
    kv_heads: int
    d_k: int
    scale: float | None
    biases: frozenset[str]
    into_o: int
    out_of_o: int


def truth(built: Built, layer: LayerGeometry) -> Truth:
    """The sizes of the module that a layer's path means, from its attributes and its matrices."""
    module = _module(built, layer)
    d_k = _attribute(module, D_K)
    if d_k is None:
        d_k = _matrix(module, "o")[1] // _attribute(module, HEADS)
    heads = _attribute(module, HEADS) or _matrix(module, "o")[1] // d_k
    return Truth(
        heads=int(heads),
        kv_heads=_kv_heads(module, int(heads), d_k),
        d_k=int(d_k),
        scale=_attribute(module, SCALE),
        biases=frozenset(letter for letter in "qkvo" if _has_bias(module, letter)),
        into_o=_matrix(module, "o")[1],
        out_of_o=_matrix(module, "o")[0],
    )


def _kv_heads(module: Any, heads: int, d_k: int) -> int:
    if getattr(module, "num_key_value_groups", None):
        return int(heads // module.num_key_value_groups)
    if getattr(module, "multi_query", False) and not getattr(module, "new_decoder_architecture", 0):
        return 1
    return int(_attribute(module, KV_HEADS) or heads)


def _module(built: Built, layer: LayerGeometry) -> Any:
    """The module whose path ends as the layer's does, of the same tower.

    ViT and Nomic BERT are saved under older names than their modules have.
    """
    modules = [path for path, _ in built.model.named_modules()]
    towers = any(VISION.search(path) for path in modules)
    tail = re.search(r"\w+\.\d+\..*$", layer.path)
    assert tail is not None
    renamed = rf"layers\.{layer.index}\.(attention|self_attn|attn)"
    for ending in (re.escape(tail[0]), renamed):
        names = [
            path
            for path in modules
            if re.search(rf"(^|\.){ending}$", path)
            and (not towers or bool(VISION.search(path)) == (layer.stack == "vision"))
            and (layer.stack not in ("encoder", "decoder") or layer.stack in path)
        ]
        if names:
            return built.model.get_submodule(min(names, key=len))
    raise AssertionError(f"{built.name} has no module {layer.path}")


def _parts(module: Any) -> Iterator[Any]:
    """A module, and what it keeps its projections in."""
    yield module
    for name in ("self", "attention", "attn"):
        if hasattr(module, name):
            yield getattr(module, name)


def _attribute(module: Any, names: tuple[str, ...]) -> Any:
    for part in _parts(module):
        for name in names:
            value = getattr(part, name, None)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return value
    return None


NAMES = {
    "q": r"^(self\.|attention\.)?(q|q_proj|query|q_lin|query_proj|q_b_proj|q_a_proj)$",
    "k": r"^(self\.|attention\.)?(k|k_proj|key|k_lin|key_proj|kv_a_proj_with_mqa)$",
    "v": r"^(self\.|attention\.)?(v|v_proj|value|v_lin|value_proj|kv_b_proj)$",
    "o": r"^(o|o_proj|out_proj|dense|out_lin|output\.dense|c_proj|Wo|proj|o_lin)$",
    "qkv": r"^(qkv|qkv_proj|query_key_value|Wqkv|c_attn)$",
}


def _linear(module: Any, letter: str) -> Any:
    """The projection of a letter, by the names of transformers; that of all three for q, k, v."""
    for pattern in (NAMES[letter], NAMES["qkv"]):
        for name, child in module.named_modules():
            if re.search(pattern, name):
                return child
    return None


def _matrix(module: Any, letter: str) -> tuple[int, int]:
    """(out, in) of a projection."""
    child = _linear(module, letter)
    shape = tuple(child.weight.shape)
    return shape if type(child).__name__ != "Conv1D" else shape[::-1]


def _has_bias(module: Any, letter: str) -> bool:
    return getattr(_linear(module, letter), "bias", None) is not None


def attended(built: Built, length: int) -> list[Any]:
    """The weights of each layer of self-attention, (H, L, L), on random tokens."""
    torch = import_module("torch")
    tokens = torch.randint(3, 40, (1, length), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        output = built.model(input_ids=tokens, output_attentions=True)
    return [each[0].numpy() for each in output.attentions if each is not None]


def scale_of(layer: LayerGeometry) -> float:
    """The scale that a geometry means."""
    assert layer.geometry is not None
    given = layer.geometry.scale
    return 1 / math.sqrt(layer.geometry.d_k) if given is None else given
