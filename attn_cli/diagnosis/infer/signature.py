"""The signature: what each parameter of forward takes, by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attn_cli.diagnosis.infer.names import (
    BIASES,
    FORWARD,
    SHOWS_WEIGHTS,
    looks_like_mask,
    plain,
    word,
)
from attn_cli.errors import InputError

Parameter = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Signature:
    """`inputs` as in a plan; the parameters that take masks, a bias and a cache; `constants`.

    `heads` says that the function is told how many there are; `mask_required` that it cannot be
    called without its mask.
    """

    inputs: tuple[str, ...]
    masks: tuple[str, ...] = ()
    bias: str | None = None
    cache: str | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    optional_flags: tuple[str, ...] = ()
    mask_required: bool = False
    causal: bool | None = None


def read_signature(
    parameters: Sequence[Parameter], *, has_weights: bool, heads: int | None
) -> Signature:
    """What is passed where. InputError asks for --call where a required name tells nothing."""
    usable = [p for p in parameters if not p["kind"].startswith("var_")]
    if not usable:
        raise InputError(
            "its parameters cannot be read", hint='say --call "q, k, v", in the order of them'
        )
    roles = _roles(usable)
    inputs: list[str] = []
    constants: dict[str, Any] = {}
    skipped = False
    for p in usable:
        role, name = roles.get(p["name"]), p["name"]
        if role in ("heads", "kv_heads"):
            default = p["default"]
            other = role == "heads" and isinstance(default, int) and heads not in (None, default)
            if p["required"] or other:
                constants[name] = (heads or 4) if role == "heads" else max(1, (heads or 4) // 2)
            skipped = True
        elif role is None or role in ("mask", "bias", "cache", "flag", "causal"):
            if role is None and p["required"]:
                raise _ask(name, parameters)
            skipped = True
        elif p["required"] or role in ("context", "k", "v", "positions"):
            if role.startswith("w_") and has_weights:
                continue
            inputs.append(f"{name}={role}" if skipped or p["kind"] == "keyword_only" else role)
        else:
            inputs.append(f"{name}={role}" if skipped or p["kind"] == "keyword_only" else role)
    if not any(entry.rpartition("=")[2] in ("x", "q") for entry in inputs):
        raise _ask(usable[0]["name"], parameters)
    masks = tuple(p["name"] for p in usable if roles.get(p["name"]) == "mask")
    first = {role: name for name, role in reversed(roles.items())}
    causal = [p["default"] for p in usable if roles.get(p["name"]) == "causal"]
    return Signature(
        tuple(_settled(inputs)),
        masks=masks,
        bias=first.get("bias"),
        cache=first.get("cache"),
        constants=constants,
        optional_flags=tuple(n for n, role in roles.items() if role == "flag"),
        mask_required=any(p["required"] for p in usable if roles.get(p["name"]) == "mask"),
        causal=bool(causal[0]) if causal else None,
    )


def _settled(inputs: Sequence[str]) -> list[str]:
    """A single sequence is x; one beside q is a context, and q then is x."""
    roles = [entry.rpartition("=")[2] for entry in inputs]
    if "q" in roles and "k" not in roles and "v" not in roles:
        return [_renamed(entry, {"q": "x"}) for entry in inputs]
    return list(inputs)


def _renamed(entry: str, new: Mapping[str, str]) -> str:
    name, equals, role = entry.rpartition("=")
    return f"{name}{equals}{new.get(role, role)}"


def _roles(parameters: Sequence[Parameter]) -> dict[str, str]:
    """Parameter → what it takes; those whose names tell nothing are missing."""
    roles: dict[str, str] = {}
    for p in parameters:
        name = p["name"]
        role = _role(name)
        number = isinstance(p["default"], int | float) and not isinstance(p["default"], bool)
        if role is not None and not (number and role not in ("heads", "kv_heads")):
            roles[name] = role
    required = [p["name"] for p in parameters if p["required"]]
    _by_place(roles, required)
    first = next((n for n, role in roles.items() if role in ("x", "q")), None)
    for p in parameters:  # hidden=None beside q, k and v is a mask
        name = p["name"]
        if roles.get(name) == "x" and name != first and not p["required"]:
            roles[name] = "mask" if looks_like_mask(name) else "context"
    taken = [name for name in roles if roles[name] == "x"]
    for extra in taken[1:]:  # forward(tgt, src): the first is x, the next what it attends to
        roles[extra] = "context"
    return roles


def _by_place(roles: dict[str, str], required: Sequence[str]) -> None:
    """Names that tell nothing: three in a row are q, k, v; a single or first one is x."""
    open_ = [name for name in required if name not in roles]
    known = set(roles.values())
    if len(open_) == 3 and open_ == list(required[:3]) and not known & {"q", "k", "v", "x"}:
        roles.update(zip(open_, "qkv", strict=True))
    elif len(open_) == 1 and required[:1] == open_ and not known & {"q", "x"}:
        roles[open_[0]] = "x"


def _role(name: str) -> str | None:
    if plain(name) in {plain(b) for b in BIASES}:
        return "bias"
    if name in SHOWS_WEIGHTS:
        return "flag"
    if name in ("is_causal", "causal"):
        return "causal"
    if name in FORWARD["w_q"] + FORWARD["w_k"] + FORWARD["w_v"] + FORWARD["w_o"]:
        return word(name, FORWARD)
    known = word(name, FORWARD)
    if looks_like_mask(name) and (known is None or "mask" in name.lower()):
        return "mask"
    return known


def _ask(name: str, parameters: Sequence[Parameter]) -> InputError:
    listed = ", ".join(p["name"] for p in parameters)
    return InputError(
        f"what is {name}? The names of ({listed}) do not tell what is given where",
        hint='say --call "x, mask" or --call "q, k, v", in the order of the parameters',
    )
