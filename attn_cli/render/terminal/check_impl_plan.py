"""The first lines of `attn check impl`: how the code was built and called, and what is right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from attn_cli.core.results_impl import ImplResult
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.prose import counted, packed

KINDS = {"function": "function", "module": "torch module", "object": "class"}
LONGEST = 60  # characters of one value


def plan_lines(result: ImplResult, screen: Screen) -> Iterator[Text]:
    """The code's name and the call that was made; then what it is meant to compute."""
    call, intent = result.plan["call"], result.plan["intent"]
    title = screen.text(result.name, "bold")
    kind = KINDS[call["kind"]]
    if call["kind"] != "module":
        kind = f"{call['lib']} {kind}"
    facts = [kind, _call(result.name, call), f"axes {', '.join(call['layouts'])}"]
    words = packed([screen.text(f) for f in facts], screen, indent=2, first=title.cell_len + 2)
    yield Text("  ").join([title, words])
    meant = [screen.text(fact) for fact in _meant(call, intent)]
    label = screen.text("  meant ", "dim")
    yield Text.assemble(label, packed(meant, screen, indent=8, first=8))


def _call(name: str, call: Mapping[str, Any]) -> str:
    """As one writes it: MyAttention(d_model=32)(x, mask=keep_pad) → out."""
    short = name.rpartition(":")[2].rpartition(".")[2] or name
    built = short if call["kind"] == "function" else f"{short}({_init(call.get('init') or {})})"
    given = [entry for entry in call["inputs"] if "=" not in entry]
    given += [entry for entry in call["inputs"] if "=" in entry]
    mask = call.get("mask")
    if mask is not None:
        given.append(f"{mask['arg']}={mask['dtype']} {mask['kind']}")
    given += [f"{key}={_value(value)}" for key, value in (call.get("constants") or {}).items()]
    return f"{built}({', '.join(given)}) → {', '.join(call['returns'])}"


def _init(init: Mapping[str, Any]) -> str:
    if "config_attr" in init:
        return str(init["config_attr"])
    parts = [_value(value) for value in init.get("args") or ()]
    parts += [f"{name}={_value(value)}" for name, value in (init.get("kwargs") or {}).items()]
    if "config_class" in init:
        fields = (init.get("config") or {}).items()
        inner = ", ".join(f"{name}={_value(value)}" for name, value in fields)
        parts.append(f"{init['config_class']}({inner})")
    return ", ".join(parts)


def _value(value: Any) -> str:
    text = str(value["$name"]) if isinstance(value, dict) and "$name" in value else repr(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _meant(call: Mapping[str, Any], intent: Mapping[str, Any]) -> Iterator[str]:
    """What the reference computes, and which matrix is which."""
    heads = intent.get("heads") or 1
    yield counted(heads, "head") + _shared(intent.get("kv_heads"), heads)
    yield "causal" if intent.get("causal") else intent.get("mask") or "every key"
    if intent.get("window") is not None:
        yield f"window {intent['window']}"
    if intent.get("align") is not None:
        yield str(intent["align"])
    yield "scale 1/√d" if intent.get("scale") is None else f"scale {intent['scale']:g}"
    if intent.get("softcap") is not None:
        yield f"softcap {intent['softcap']:g}"
    yield from _positions(intent)
    yield from _matrices(intent.get("weights"))


def _shared(kv_heads: int | None, heads: int) -> str:
    if kv_heads in (None, heads):
        return ""
    return f" on {counted(kv_heads or 1, 'key/value head')}"


def _positions(intent: Mapping[str, Any]) -> Iterator[str]:
    if (rope := intent.get("rope")) is not None:
        yield f"rope:{rope['layout']} base {rope['base']:g}"
    if intent.get("alibi"):
        yield "alibi"
    if intent.get("positions") is not None:
        yield f"positions {intent['positions']}"
    if intent.get("sink") is not None:
        yield f"sinks {intent['sink']}"


def _matrices(weights: Mapping[str, Any] | None) -> Iterator[str]:
    """Which parameter was taken for which projection."""
    if weights is None:
        return
    names = {role: name for role, name in weights.items() if role != "type"}
    if not names:
        yield f"matrices: {weights['type']}"
    for role, name in names.items():
        alone = role in ("q", "k", "v", "o", "qkv", "kv", "w")
        yield f"{'W_' + role if alone and role != 'w' else role}: {name}"
