"""Saying: the options of `attn check impl`, --init, --call, …, as what was said of a plan."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from attn_cli.core.registry import unknown_name
from attn_cli.diagnosis.infer.names import FORWARD, looks_like_mask, word
from attn_cli.diagnosis.plan import INPUTS, LAYOUTS, RETURNS
from attn_cli.diagnosis.plan_json import Said
from attn_cli.errors import InputError

ROLES = ("q", "k", "v", "qkv", "kv", "o")


def say(
    said: Said = Said(),
    *,
    init: str | None = None,
    call: str | None = None,
    mask_means: str | None = None,
    names: str | None = None,
    returns: str | None = None,
    layout: str | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    scale: float | str | None = None,
    softcap: float | None = None,
    masks: Sequence[str] = (),
    positions: str | None = None,
    rope_base: float | None = None,
    align: str | None = None,
) -> Said:
    """What the options say, over what a plan file says. InputError names what cannot be read."""
    calls: dict[str, Any] = dict(said.call)
    intent: dict[str, Any] = dict(said.intent)
    if init is not None:
        calls["init"] = read_init(init)
    mask_at = said.mask_at
    if call is not None:
        calls |= read_call(call)
        mask_at = calls.pop("mask_place")
    if returns is not None:
        calls |= read_returns(returns)
    if layout is not None:
        calls["layouts"] = read_layouts(layout)
    counts = {"heads": heads, "kv_heads": kv_heads, "softcap": softcap, "align": align}
    intent |= {name: value for name, value in counts.items() if value is not None}
    if scale is not None:
        intent["scale"] = 1.0 if scale == "none" else float(scale)
    if masks:
        intent |= read_masks(masks)
    if rope_base is not None and (positions or "").partition(":")[0] != "rope":
        raise InputError("--rope-base is about --positions rope, and that is not said")
    if positions is not None:
        intent |= read_positions(positions, rope_base)
    return dataclasses.replace(
        said,
        call=calls,
        intent=intent,
        mask_means=mask_means or said.mask_means,
        mask_at=mask_at,
        names=read_map(names) if names is not None else said.names,
    )


def read_init(text: str) -> dict[str, Any]:
    """--init "32, n_heads=4" as init of a plan: Python literals, and names of the file.

    >>> read_init("d_model=32, n_heads=4")
    {'args': [], 'kwargs': {'d_model': 32, 'n_heads': 4}}
    """
    args, kwargs = _arguments(text, "--init")
    values = [_literal(node, "--init") for node in args]
    return {"args": values, "kwargs": {n: _literal(v, "--init") for n, v in kwargs.items()}}


def read_call(text: str) -> dict[str, Any]:
    """--call "x, mask" as fields of a call: what stands at each place, or name=what.

    What may be q, k, v, x, context, positions, mask, or a literal for a name.

    >>> read_call("x, y=context, heads=4")
    {'inputs': ['x', 'y=context'], 'constants': {'heads': 4}, 'mask_place': None}
    """
    args, kwargs = _arguments(text, "--call")
    inputs: list[str] = []
    constants: dict[str, Any] = {}
    mask: int | str | None = None
    for place, node in enumerate(args):
        said = node.id if isinstance(node, ast.Name) else None
        if said is not None and said not in INPUTS and looks_like_mask(said):
            mask = place
        else:
            inputs.append(_input(said, node))
    for name, node in kwargs.items():
        said = node.id if isinstance(node, ast.Name) else None
        if said is None:
            constants[name] = _literal(node, "--call")
        elif said not in INPUTS and looks_like_mask(said):
            mask = name
        else:
            inputs.append(f"{name}={_input(said, node)}")
    return {"inputs": inputs, "constants": constants, "mask_place": mask}


def read_returns(text: str) -> dict[str, Any]:
    """--returns "out, weights" in order, or "context=out, attn=weights" by names.

    >>> read_returns("context=out, attn=weights")
    {'returns': ['out', 'weights'], 'keys': ['context', 'attn']}
    """
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    named = [entry.rpartition("=") for entry in entries]
    for _, _, what in named:
        if what.strip() not in RETURNS:
            raise unknown_name("result", what.strip(), RETURNS)
    returns = [what.strip() for _, _, what in named]
    if not returns or len({bool(equals) for _, equals, _ in named}) > 1:
        raise InputError(
            f"--returns is {text!r}: expected results in order, or NAME=result for all of them",
            hint='such as --returns "out, weights"',
        )
    keys = [name.strip() for name, _, _ in named]
    return {"returns": returns, "keys": keys if keys[0] else None}


def read_map(text: str) -> dict[str, str]:
    """--map "to_q=q,to_k=k,proj=o": names of the code's matrices → what they are.

    >>> read_map("asks=q, offers=k")
    {'asks': 'q', 'offers': 'k'}
    """
    found: dict[str, str] = {}
    for entry in text.split(","):
        name, equals, role = (part.strip() for part in entry.partition("="))
        if not equals or not name:
            raise InputError(
                f"--map holds {entry.strip()!r}: expected NAME=role", hint='such as "to_q=q,proj=o"'
            )
        if role not in ROLES:
            raise unknown_name("projection", role, ROLES)
        found[name] = role
    return found


def read_layouts(text: str) -> list[str]:
    """--layout bhld, or several with commas, as layouts of a plan."""
    names = [name.strip().upper() for name in text.split(",")]
    for name in names:
        if name not in LAYOUTS:
            raise unknown_name("layout", name, LAYOUTS)
    return names


def read_masks(expressions: Sequence[str]) -> dict[str, Any]:
    """--mask EXPR, what the code is meant to hide by itself: causal, window(W), or any expression.

    >>> read_masks(["causal & window(3)"]), read_masks(["window(4, both)"])
    ({'causal': True, 'window': 3}, {'causal': False, 'window': 4})
    >>> read_masks(["causal & sink(2)"])
    {'causal': False, 'mask': 'causal & sink(2)'}
    """
    from attn_cli.masks.expression import conjunction, parse

    text = str(conjunction([parse(expression) for expression in expressions]))
    if text in ("causal", "none"):
        return {"causal": text == "causal"}
    one_side = re.fullmatch(r"(?:causal & )?window\((\d+)\)(?: & causal)?", text)
    if one_side:
        return {"causal": True, "window": int(one_side.group(1))}
    both = re.fullmatch(r"window\((\d+), both\)", text)
    if both:
        return {"causal": False, "window": int(both.group(1))}
    return {"causal": False, "mask": text}


def read_positions(text: str, base: float | None) -> dict[str, Any]:
    """--positions as fields of an intent: rope, alibi, sinusoidal, or the name of a table."""
    name, _, variant = text.partition(":")
    if name == "rope":
        rope: dict[str, Any] = {"layout": variant or "half"}
        return {"rope": rope | ({"base": base} if base is not None else {})}
    if name == "none":
        return {"rope": None, "alibi": False, "positions": None}
    return {"alibi": True} if name == "alibi" else {"positions": text}


def _arguments(text: str, option: str) -> tuple[list[ast.expr], Mapping[str, ast.expr]]:
    try:
        node = ast.parse(f"f({text})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        node = None
    one_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    if not (isinstance(node, ast.Call) and one_call) or any(k.arg is None for k in node.keywords):
        raise InputError(
            f"{option} is {text!r}: expected arguments as in a call",
            hint=f"such as {_SUCH[option]}",
        )
    return node.args, {str(k.arg): k.value for k in node.keywords}


_SUCH = {"--init": '"d_model=32,n_heads=4"', "--call": '"x, mask"'}


def _literal(node: ast.expr, option: str) -> Any:
    """A Python literal, or {"$name": N} for a name of the file."""
    if isinstance(node, ast.Name):
        return {"$name": node.id}
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise InputError(
            f"{option} holds {ast.unparse(node)}: expected a literal or a name of the file"
        ) from None
    return list(value) if isinstance(value, tuple | set) else value


def _input(said: str | None, node: ast.expr) -> str:
    role = said if said in INPUTS else word(said or "", FORWARD)
    if role not in INPUTS:
        raise InputError(
            f"--call holds {ast.unparse(node)}: expected one of {', '.join(INPUTS)}, mask, or "
            "NAME=literal",
        )
    return str(role)
