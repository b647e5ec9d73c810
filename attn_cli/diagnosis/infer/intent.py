"""The intent: what the code is meant to do by itself, by its settings, names and comments."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from attn_cli.core.findings import Finding, note
from attn_cli.diagnosis.infer.names import CONSTRUCTOR, parts, plain, word
from attn_cli.diagnosis.infer.source import Source
from attn_cli.diagnosis.plan import WeightsSpec
from attn_cli.diagnosis.weights import Tensor

_POSITIONAL = ("pos", "position", "positions", "positional", "wpe", "pe", "posemb")


def settings_of(words: Mapping[str, Any], held: Mapping[str, Any]) -> dict[str, Any]:
    """Values by what they mean: those of the constructor, then those that the object holds."""
    found = dict(words)
    for name, value in sorted(held.items(), key=lambda item: item[0].count(".")):
        meaning = word(name.rpartition(".")[2], CONSTRUCTOR)
        depth = name.count(".")
        nested_in = name.partition(".")[0]
        config = nested_in.lower() in ("config", "cfg", "args", "hparams", "conf")
        # Of a part (a Linear, a Dropout) only what the whole cannot say otherwise.
        own = meaning in ("heads", "dropout") or depth == 0 or config
        flag = isinstance(value, bool) and meaning != "causal"
        if own and meaning is not None and not flag:
            found.setdefault(meaning, value)
    return found


def heads_of(
    settings: Mapping[str, Any], spec: WeightsSpec | None, tensors: Mapping[str, Tensor]
) -> tuple[int | None, int | None]:
    """Query heads and key/value heads (None: as many); by settings, and where shapes say more."""
    heads = _count(settings.get("heads"))
    if spec is None:
        return heads, _count(settings.get("kv_heads"))
    if spec.type == "head_modules":
        pattern = re.compile(rf"{re.escape(spec.names['list'])}\.(\d+)\.")
        found = [int(m.group(1)) for name in tensors if (m := pattern.match(name))]
        return max(found, default=0) + 1, None
    if spec.type == "head_tensors":
        shape = tensors[spec.names["q"]].shape
        heads = heads if heads in shape[:2] else shape[0]
        k_shape = tensors[spec.names["k"]].shape
        kv = k_shape[shape.index(heads)]
        return heads, kv if kv != heads else None
    q_out, k_out = _outs(spec, tensors)
    if heads is None and q_out is not None and (d := _count(settings.get("head_dim"))):
        heads = q_out // d if q_out % d == 0 else None
    heads = heads or 1
    kv_heads = _count(settings.get("kv_heads"))
    if q_out and k_out and q_out % heads == 0 and k_out % (q_out // heads) == 0:
        kv_heads = k_out // (q_out // heads)
    return heads, kv_heads if kv_heads != heads else None


def _outs(spec: WeightsSpec, tensors: Mapping[str, Tensor]) -> tuple[int | None, int | None]:
    """The outputs of q and of k, by their own matrices, or by the output projection's inputs."""
    q, k = _out(spec, tensors, "q"), _out(spec, tensors, "k")
    if (kv := _out(spec, tensors, "kv")) is not None:
        k = kv // 2
    both, merged = _out(spec, tensors, "qkv"), _in(spec, tensors, "o")
    if both is not None and merged is not None and both > merged:
        q, k = merged, (both - merged) // 2
    return q, k


def _shape(spec: WeightsSpec, tensors: Mapping[str, Tensor], role: str) -> tuple[int, int] | None:
    """The (in, out) of a matrix, None where it has none of its own."""
    name = spec.names.get(role, "")
    tensor = tensors.get(f"{name}.weight") or tensors.get(name)
    if tensor is None or len(tensor.shape) < 2:
        return None
    plain = spec.type in ("numpy_attrs", "fused_conv1d") or tensor.family == ""
    first, second = tensor.shape[:2]
    return (first, second) if plain else (second, first)


def _out(spec: WeightsSpec, tensors: Mapping[str, Tensor], role: str) -> int | None:
    shape = _shape(spec, tensors, role)
    return None if shape is None else shape[1]


def _in(spec: WeightsSpec, tensors: Mapping[str, Tensor], role: str) -> int | None:
    shape = _shape(spec, tensors, role)
    return None if shape is None else shape[0]


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def read_intent(
    source: Source,
    settings: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    name: str,
    causal: bool | None,
) -> tuple[dict[str, Any], list[Finding]]:
    """The fields of an intent that the code itself tells, each with a note of what told it."""
    intent: dict[str, Any] = {}
    findings: list[Finding] = []

    def tell(field: str, value: Any, why: str) -> None:
        intent[field] = value
        findings.append(note("plan-intent", f"{field.replace('_', ' ')}: {why}"))

    if (why := _causal(source, settings, name, causal)) is not None:
        tell("causal", True, why)
    window, cap = settings.get("window"), settings.get("softcap")
    if _count(window) is not None:
        tell("window", window, f"{window} keys, by its argument")
    if isinstance(cap, float | int) and not isinstance(cap, bool) and cap > 0:
        tell("softcap", float(cap), f"{cap:g}, by its argument")
    if (rope := _rope(source, settings, name)) is not None:
        tell("rope", rope, f"{rope['layout']}, base {rope['base']:g}, by the names in the code")
    if _alibi(source, name):
        tell("alibi", True, "the names in the code say ALiBi")
    for tensor in tensors.values():
        last = [part for part in tensor.name.split(".") if part != "weight"][-1]
        if any(part in ("sink", "sinks") for part in parts(last)) and "sink" not in intent:
            tell("sink", tensor.name, f"{tensor.name} has one number a head")
        positional = plain(last) in _POSITIONAL or any(p in _POSITIONAL for p in parts(last))
        table = len([n for n in tensor.shape if n != 1]) == 2
        if positional and table and "positions" not in intent and "bias" not in parts(last):
            where = tensor.name.removesuffix(".weight")
            tell("positions", where, f"{where} is a table of positions")
    rate = settings.get("dropout")
    if isinstance(rate, float | int) and not isinstance(rate, bool) and 0 < rate < 1:
        intent["dropout"] = float(rate)
    return intent, findings


_TRIANGLES = ("tril", "triu", "tril_indices", "triu_indices", "tri")


def _causal(
    source: Source, settings: Mapping[str, Any], name: str, argument: bool | None
) -> str | None:
    """Why the code is taken to be causal, None where nothing says so."""
    if isinstance(settings.get("causal"), bool):
        return "the constructor's argument says so" if settings["causal"] else None
    if argument is not None:
        return "the argument's default says so" if argument else None
    if "causal" in name.lower():
        return f"its name is {name}"
    if _count(settings.get("window")) is not None and "abs" not in source.identifiers():
        return "a window that measures no distance looks back only"
    for node in source.walk():
        said = isinstance(node, ast.keyword) and node.arg == "is_causal"
        if said and getattr(getattr(node, "value", None), "value", True) is not False:
            return "the code says is_causal"
        word_ = getattr(node, "attr", None) or getattr(node, "id", None)
        if isinstance(word_, str) and word_.lower() in _TRIANGLES:
            return f"the code says {word_}"
        if isinstance(word_, str) and ("causal" in word_.lower() or word_.lower() == "future"):
            return f"the code says {word_}"
    wanted = r"(?<!non-)(?<!not )(?<!no )\b(causal|autoregressive)\b(?!ity)[^\n]*"
    stated = re.search(wanted, source.documents(), re.IGNORECASE)
    if stated and "mask" not in stated.group(0).lower():
        return f"its documentation says {stated.group(1).lower()}"
    return None


def _rope(source: Source, settings: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    words = source.identifiers()
    documents = source.documents().lower()
    told = any("rope" in parts(w) or "rotary" in w or w == "rotate_half" for w in words)
    told = told or "inv_freq" in words or "rotary" in documents or "rope" in parts(name)
    told = told or ("cos" in words and "sin" in words and "positions" not in words)
    if not told or not ({"cos", "sin"} <= words or "polar" in words):
        return None
    text = source.text
    pairs = re.search(r"neighbou?r|interleaved|adjacent|consecutive", documents)
    halves = re.search(r"\bhal(f|ves)\b", documents)
    sliced = re.search(r"\b[01]?::2\b", re.sub(r"arange\([^)]*\)", "", text))
    complex_ = "view_as_complex" in words
    if pairs or (not halves and (sliced or complex_)):
        layout = "interleaved"
    else:
        layout = "half"
    base = settings.get("rope_base")
    if not isinstance(base, float | int) or isinstance(base, bool) or base <= 1:
        found = re.search(r"\b(10_?000(?:\.0)?|500_?000(?:\.0)?|1_?000_?000(?:\.0)?)\b", text)
        base = float(found.group(1).replace("_", "")) if found else 10_000.0
    return {"base": float(base), "layout": layout}


def _alibi(source: Source, name: str) -> bool:
    words = source.identifiers()
    return "alibi" in name.lower() or "slopes" in words or any("alibi" in w for w in words)
