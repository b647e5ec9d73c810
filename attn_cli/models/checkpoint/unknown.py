"""A model_type that is not known: what the usual names of fields and tensors give."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from attn_cli.core.geometry import Geometry, LayerGeometry
from attn_cli.core.problems import Problem
from attn_cli.errors import InputError
from attn_cli.models.checkpoint.families.composites import PICTURES
from attn_cli.models.checkpoint.fields import Fields
from attn_cli.models.checkpoint.packed import is_packed
from attn_cli.models.checkpoint.stack_reader import Reading
from attn_cli.models.checkpoint.weights import Weights

MOST = 10_000  # modules
_MODULE = re.compile(
    r"((?:.*?\.)??\w+\.(\d{1,6})\.(?:.+\.)?)"
    r"(q_proj|query|q_lin|query_proj|to_q|wq|qkv_proj|qkv|Wqkv|query_key_value|c_attn)\.weight"
)
_RECURRENT = re.compile(r"(^|\.)(A_log|dt_bias|dt_proj|\w*conv1d|time_decay|x_proj)(\.|$)")
_FUSED = ("qkv_proj", "qkv", "Wqkv", "query_key_value", "c_attn")
# The name of q's matrix → those of k, v and what o may be called.
_SIBLINGS: Mapping[str, tuple[str, str]] = {
    "q_proj": ("k_proj", "v_proj"),
    "query": ("key", "value"),
    "q_lin": ("k_lin", "v_lin"),
    "query_proj": ("key_proj", "value_proj"),
    "to_q": ("to_k", "to_v"),
    "wq": ("wk", "wv"),
}
_OUT = ("o_proj", "out_proj", "dense", "out_lin", "wo", "Wo", "proj", "c_proj", "to_out.0", "o")


@dataclass(frozen=True, slots=True)
class _Found:
    """A module with a matrix of q, or of all three; shapes by name below it."""

    path: str
    index: int
    query: str
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def rows(self, name: str) -> int | None:
        """The features that come out of a matrix, (out, in); None where it is not there."""
        shape = self.shapes.get(f"{name}.weight", ())
        return shape[0] if len(shape) == 2 else None


def read_unknown(config: Mapping[str, Any], weights: Weights) -> Reading:
    """The layers that look like attention, as far as fields and shapes agree.

    Nothing is held against them but what must hold of any attention, and that as a warning.
    """
    layers: list[LayerGeometry] = []
    problems: list[Problem] = []
    used: set[str] = set()
    for found in _modules(weights):
        if any(_RECURRENT.search(name) for name in found.shapes):
            layers.append(_other(found))
            continue
        fields = Fields(_values(config, found.path), {}, {})
        geometry, said = _geometry(found, fields)
        problems += [
            Problem("unknown", f"{found.path}: {text}", "warning", found.path) for text in said
        ]
        if geometry is not None:
            used |= {f"{found.path}.{name}" for name in found.shapes}
            layers.append(
                LayerGeometry(
                    path=found.path,
                    index=found.index,
                    kind="softmax",
                    says="attention, by its names",
                    geometry=geometry,
                    stack="vision" if re.search(PICTURES, found.path) else "",
                )
            )
    return Reading(tuple(layers), tuple(problems), 0, frozenset(used))


def _other(found: _Found) -> LayerGeometry:
    """A module with q, k and v whose other tensors are those of a recurrence."""
    return LayerGeometry(
        path=found.path, index=found.index, kind="linear", says="a recurrence, by its names"
    )


def _modules(weights: Weights) -> Iterator[_Found]:
    """The modules in order of path and number."""
    starts: dict[str, tuple[int, str]] = {}
    for name in weights.tensors:
        if (match := _MODULE.fullmatch(name)) and len(starts) < MOST:
            starts.setdefault(match[1], (int(match[2]), match[3]))
    members: dict[str, dict[str, tuple[int, ...]]] = {start: {} for start in starts}
    for name, stored in weights.tensors.items():
        for start in _starts(name):
            if start in members and not is_packed(stored):
                members[start][name.removeprefix(start)] = stored.shape
    for start in sorted(starts, key=lambda each: (re.sub(r"\d+", "", each), starts[each][0])):
        index, query = starts[start]
        yield _Found(start.rstrip("."), index, query, members[start])


def _starts(name: str) -> Iterator[str]:
    """What stands before each dot of a name, the last sixteen of them."""
    parts = name.split(".")
    for cut in range(max(1, len(parts) - 16), len(parts)):
        yield ".".join(parts[:cut]) + "."


def _values(config: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """The part of a configuration that describes a module, by the module's path."""
    name = "vision_config" if re.search(PICTURES, path) else "text_config"
    part = config.get(name)
    return {**config, **part} if isinstance(part, dict) else config


def _geometry(found: _Found, fields: Fields) -> tuple[Geometry | None, list[str]]:
    """The sizes of one module, and what does not agree."""
    try:
        heads, head_dim = fields.size("heads"), fields.size("d_k")
        kv_heads = fields.size("kv_heads")
        window, softcap = fields.count("sliding_window"), fields.number("attn_logit_softcapping")
    except InputError as error:
        return None, [error.message]
    if heads is None:
        return None, ["config.json has no number of heads under a name that is known"]
    shape = found.shapes.get(f"{found.query}.weight", ())
    if len(shape) != 2:
        return None, ["its matrices are packed or no matrices, so that nothing can be told"]
    sizes = _fused if found.query in _FUSED else _separate
    given = kv_heads.value if kv_heads else None
    counted = sizes(found, shape, heads.value, given, head_dim.value if head_dim else None)
    if counted is None:
        return None, [f"{found.query}.weight {shape} does not divide into {heads.value} heads"]
    kv, d_k, d_v, said = counted
    if heads.value % kv:
        said.append(f"{heads.value} heads do not divide into {kv} key/value heads")
    turned = found.query == "c_attn" and shape[1] > shape[0]  # GPT-2 keeps (in, out)
    d_model = shape[0] if turned else shape[1]
    out = next((name for name in _OUT if f"{name}.weight" in found.shapes), None)
    return (
        Geometry(
            heads=heads.value,
            kv_heads=kv,
            d_k=d_k,
            d_v=d_v,
            d_model=d_model,
            d_out=None if out is None else d_model,
            projected=True,
            biases=_biases(found, out),
            causal=_is_causal(fields),
            window=window if _slides(fields, found.index) else None,
            softcap=softcap or None,
            sinks="sinks" in found.shapes,
            positions=_positions(fields),
        ),
        said,
    )


def _separate(
    found: _Found, shape: tuple[int, ...], heads: int, kv_heads: int | None, head_dim: int | None
) -> tuple[int, int, int, list[str]] | None:
    """kv heads, d_k, d_v of matrices of their own, and what the shapes say against the fields."""
    d_k = head_dim or shape[0] // heads
    if not d_k:
        return None
    said = []
    if shape[0] != heads * d_k:
        said.append(
            f"{found.query}.weight is {shape}, and {heads} heads of {d_k} are {heads * d_k}"
        )
    key, value = _SIBLINGS[found.query]
    keys = found.rows(key) or (kv_heads or heads) * d_k
    counted = kv_heads or keys // d_k or 1
    if keys != counted * d_k:
        wanted = counted * d_k
        said.append(f"{key}.weight makes {keys}, and {counted} heads of {d_k} are {wanted}")
    d_v = (found.rows(value) or counted * d_k) // counted or 1
    return counted, d_k, d_v, said


def _fused(
    found: _Found, shape: tuple[int, ...], heads: int, kv_heads: int | None, head_dim: int | None
) -> tuple[int, int, int, list[str]] | None:
    """The same of one matrix for the three."""
    total = max(shape) if found.query == "c_attn" else shape[0]
    if head_dim is None:
        parts = heads + 2 * (kv_heads or heads)
        if total % parts:
            return None
        head_dim = total // parts
    counted = (total // head_dim - heads) // 2
    if counted < 1 or (heads + 2 * counted) * head_dim != total:
        return None
    return counted, head_dim, head_dim, []


def _biases(found: _Found, out: str | None) -> frozenset[str]:
    names = dict.fromkeys("qkv", found.query)
    if found.query in _SIBLINGS:
        names["k"], names["v"] = _SIBLINGS[found.query]
    if out is not None:
        names["o"] = out
    return frozenset(key for key, name in names.items() if f"{name}.bias" in found.shapes)


def _is_causal(fields: Fields) -> bool:
    """Whether the architecture's name says that it predicts the next token."""
    names = fields.values.get("architectures")
    first = names[0] if isinstance(names, list) and names else ""
    return str(first).endswith(("ForCausalLM", "LMHeadModel"))


def _slides(fields: Fields, index: int) -> bool:
    words = fields.values.get("layer_types")
    if not isinstance(words, list) or index >= len(words):
        return False
    return bool(words[index] == "sliding_attention")


def _positions(fields: Fields) -> str | None:
    rope = ("rope_theta", "rope_parameters", "rope_scaling", "rotary_dim", "rotary_pct")
    if any(fields.values.get(name) is not None for name in rope):
        return "rope"
    return "alibi" if fields.values.get("alibi") is True else None
