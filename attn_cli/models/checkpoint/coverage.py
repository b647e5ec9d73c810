"""Coverage: in a sentence, which layers are softmax attention, what was held and what was not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from attn_cli.core.geometry import LayerGeometry
from attn_cli.formats.names import printable
from attn_cli.models.checkpoint.stack_reader import Reading
from attn_cli.models.checkpoint.weights import Weights

_ATTENTION = re.compile(
    r"(^|\.)(q_proj|query|q_lin|qkv|Wqkv|qkv_proj|query_key_value|c_attn|in_proj_weight|q_a_proj)"
    r"(\.weight)?$"
)


def coverage(
    layers: Sequence[LayerGeometry], readings: Sequence[Reading], weights: Weights, *, known: bool
) -> str:
    """What was checked: "2 of 4 layers are softmax attention, 2 mamba; 8 tensors were held …"."""
    sentences = [_kinds(layers) if known else _found(layers)]
    used = {name for reading in readings for name in reading.used}
    packed = sum(reading.packed for reading in readings)
    if weights.tensors:
        one = len(used) == 1
        held = f"{len(used):,} of {len(weights.tensors):,} tensors {_are(len(used))} attention's"
        how = f" and {'was' if one else 'were'} held against config.json"
        sentences.append(held + (how if known else ", by their names") if used else held)
    else:
        sentences.append("no tensors were read, so that this is what config.json says alone")
    if packed:
        sentences.append(
            f"{packed:,} of them {_are(packed)} quantised, so that no shape could be held"
        )
    others = tuple(f"{layer.path}." for layer in layers if layer.kind != "softmax")
    elsewhere = [
        name
        for name in weights.tensors
        if name not in used and _ATTENTION.search(name) and not name.startswith(others)
    ]
    if elsewhere:
        path = printable(elsewhere[0].rpartition(".")[0][:80])
        matrices = "matrix was" if len(elsewhere) == 1 else "matrices were"
        sentences.append(f"{len(elsewhere):,} other attention {matrices} not read ({path})")
    return "; ".join(sentences)


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _kinds(layers: Sequence[LayerGeometry]) -> str:
    """How many layers are what; cross-attention beside it is no layer of its own."""
    places = {(layer.stack, layer.index) for layer in layers}
    softmax = {(each.stack, each.index) for each in layers if each.kind == "softmax"}
    if not places:
        return "no layers were found"
    others = Counter(each.says for each in layers if each.kind != "softmax")
    said = f"{len(softmax):,} of {len(places):,} layers {_are(len(softmax))} softmax attention"
    if len(softmax) == len(places):
        said = f"all {len(places):,} layers are softmax attention"
        if len(places) == 1:
            said = "its one layer is softmax attention"
    return said + "".join(f", {count:,} {says}" for says, count in others.items())


def _found(layers: Sequence[LayerGeometry]) -> str:
    """Of a model that is not known: what was found, for what there is besides cannot be told."""
    count = sum(layer.kind == "softmax" for layer in layers)
    modules = (
        "module of softmax attention was" if count == 1 else "modules of softmax attention were"
    )
    return f"{count:,} {modules} found by names; what the other layers are is not known"
