"""What came back: which result is the output, and which the weights, by shapes and names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attn_cli.diagnosis.answers import from_layout, words
from attn_cli.diagnosis.infer.names import RETURNED, word
from attn_cli.diagnosis.question import Question
from attn_cli.errors import InputError

Returns = tuple[tuple[str, ...], tuple[str, ...] | None]


def classify(result: dict[str, Any], question: Question) -> Returns:
    """The words of a plan for what was returned, and its keys where it has names.

    Raises ValueError where nothing that was returned could be the output.
    """
    if result["t"] == "array":
        return ("out",), None
    if result["t"] == "tuple":
        return tuple(_by_shape(result["items"], question)), None
    if result["t"] == "dict":
        return _by_name(result["items"], question)
    raise ValueError(f"it returned {words(result)}")


def _by_shape(items: Sequence[dict[str, Any]], question: Question) -> list[str]:
    """A word for each item of a tuple: the first that fits is the output, the next the weights."""
    fits = [i for i, item in enumerate(items) if _is_output(item, question)]
    maps = [(i, kind) for i, item in enumerate(items) if (kind := _map_kind(item, question))]
    if not fits:
        arrays = [i for i, item in enumerate(items) if item["t"] == "array"]
        taken = [i for i, _ in maps]
        fits = [i for i in arrays if i not in taken] or arrays
    if not fits:
        raise ValueError(f"it returned a tuple of {len(items)} without an output")
    output = fits[0]
    kinds = ["other"] * len(items)
    weights = [(i, kind) for i, kind in maps if i != output]
    for (i, kind), second in zip(weights, (False, True), strict=False):
        kinds[i] = "scores" if second else kind
    for i, item in enumerate(items):
        if kinds[i] == "other" and i != output and _is_cache(item):
            kinds[i] = "cache"
        elif kinds[i] == "other" and i != output and len(items) == 2:
            kinds[i] = _supposed_map(item, question)
    kinds[output] = "out"
    while kinds[-1] == "other":
        kinds.pop()
    return kinds


def _by_name(items: Sequence[list[Any]], question: Question) -> Returns:
    found: dict[str, str] = {}
    for name, item in items:
        meaning = word(name, RETURNED)
        if meaning == "weights":
            meaning = _map_kind(item, question)
        if meaning == "out" and not _is_output(item, question):
            continue
        if meaning is not None and meaning not in found:
            found[meaning] = name
    if "out" not in found:
        fits = [name for name, item in items if _is_output(item, question)]
        if len(fits) != 1:
            names = ", ".join(name for name, _ in items)
            raise InputError(
                f"which of {names} is the output?", hint='say --returns "NAME=out,NAME=weights"'
            )
        found["out"] = fits[0]
    return tuple(found), tuple(found.values())


def _is_output(item: dict[str, Any], question: Question) -> bool:
    if item["t"] != "array":
        return False
    B, H, L, _ = question.shape
    array = from_layout(np.asarray(item["array"]), question.layout, L)
    if array is None:
        return False
    d_v = question.inputs.v.shape[-1]
    if question.stage == "context" and array.shape == (B, H, L, d_v):
        return True
    layer = question.inputs.output_projection
    width = H * d_v if layer is None or layer.w_o is None else layer.w_o.shape[1]
    return array.shape == (B, L, width)


def _map_kind(item: dict[str, Any], question: Question) -> str | None:
    """weights, weights_mean or weights_folded where the shape is that of a map."""
    if item["t"] != "array":
        return None
    shape = np.asarray(item["array"]).shape
    B, H, L, S = question.shape
    if shape == (B, H, L, S) or (shape == (H, L, S) and B == 1) or (shape == (L, S) and B * H == 1):
        return "weights"
    if shape == (B, L, S):
        return "weights" if H == 1 else "weights_mean"
    return "weights_folded" if shape == (B * H, L, S) else None


def _supposed_map(item: dict[str, Any], question: Question) -> str:
    """Beside the output a second array is meant to be the weights, whatever its shape."""
    rank = np.asarray(item["array"]).ndim if item["t"] == "array" else 0
    if rank == 3 and question.shape[1] > 1:
        return "weights_mean"
    return "weights" if rank in (3, 4) else "other"


def _is_cache(item: dict[str, Any]) -> bool:
    """A pair (or more) of arrays, by place or by name."""
    if item["t"] == "tuple":
        return len(item["items"]) >= 2 and all(i["t"] == "array" for i in item["items"])
    if item["t"] == "dict":
        return len(item["items"]) >= 2 and any(i["t"] == "array" for _, i in item["items"])
    return False
