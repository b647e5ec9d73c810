"""The constructor: which arguments somebody's class is built with."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attn_cli.diagnosis.infer.names import CONSTRUCTOR, VALUES, word
from attn_cli.diagnosis.infer.source import Source, fields_read
from attn_cli.errors import InputError

Parameter = Mapping[str, Any]


class NeedsArguments(InputError):
    """The class cannot be built without arguments that only its user knows."""


_POSITIONAL = ("positional_only", "positional_or_keyword")


@dataclass(frozen=True, slots=True)
class Construction:
    """`init` as in a plan (None for a function), and the values it binds by what they mean."""

    init: dict[str, Any] | None
    words: Mapping[str, Any] = field(default_factory=dict)
    guessed: tuple[str, ...] = ()  # arguments that nobody said and that have no default


def construct(
    facts: Mapping[str, Any], said: Mapping[str, Any] | None, source: Source
) -> Construction:
    """What is said, and the rest by the names of the arguments.

    Raises InputError for an argument whose name tells nothing, or that the class does not take.
    """
    if facts["init"] is None:
        return Construction(dict(said) if said else None)
    parameters: list[Parameter] = facts["init"]
    if said and (said.get("config_class") or said.get("config_attr")):
        return Construction(dict(said), _words(said.get("config") or {}))
    args = list((said or {}).get("args") or ())
    kwargs = dict((said or {}).get("kwargs") or {})
    taken = [p["name"] for p in parameters]
    open_ended = any(p["kind"] == "var_keyword" for p in parameters)
    strange = [name for name in kwargs if name not in taken]
    config = _config_parameter(parameters, facts)
    if config is not None and (strange or (config["required"] and not args and not kwargs)):
        return _configured(config, facts, kwargs, source)
    if strange and not open_ended:
        raise _strange(strange[0], taken)
    bound = dict(zip(_positional(parameters), args, strict=False)) | kwargs
    guessed = _guesses(parameters, bound)
    init: dict[str, Any] = {}
    if args:
        init["args"] = args
    if kwargs or guessed:
        init["kwargs"] = {**kwargs, **guessed}
    defaults = {p["name"]: p["default"] for p in parameters if not p["required"]}
    return Construction(init, _words({**defaults, **bound, **guessed}), tuple(guessed))


def _positional(parameters: Sequence[Parameter]) -> list[str]:
    return [p["name"] for p in parameters if p["kind"] in _POSITIONAL]


def _words(bound: Mapping[str, Any]) -> dict[str, Any]:
    """Values by what their names mean; the first of a meaning counts."""
    found: dict[str, Any] = {}
    for name, value in bound.items():
        if (meaning := word(name, CONSTRUCTOR)) is not None and value is not None:
            found.setdefault(meaning, value)
    return found


def _guesses(parameters: Sequence[Parameter], bound: Mapping[str, Any]) -> dict[str, Any]:
    """A value for every required argument that nobody said; InputError names those without."""
    missing = [p["name"] for p in parameters if p["required"] and p["name"] not in bound]
    unknown = [name for name in missing if _value(name) is None]
    if unknown:
        example = ",".join(f"{name}=…" for name in unknown)
        raise NeedsArguments(
            f"the constructor needs {', '.join(unknown)}, and the names do not tell what",
            hint=f'say --init "{example}"',
        )
    return {name: _fitting(name, bound) for name in missing}


def _value(name: str) -> Any:
    return VALUES.get(word(name, CONSTRUCTOR) or "")


def _fitting(name: str, bound: Mapping[str, Any]) -> Any:
    """The usual value, or one that goes with the width and the heads that are said."""
    meaning, said = word(name, CONSTRUCTOR), _words(bound)
    dim, heads = said.get("dim"), said.get("heads")
    if meaning == "heads" and isinstance(dim, int):
        return next(n for n in (4, 3, 6, 2, 1) if dim % n == 0)
    if meaning == "dim" and isinstance(heads, int):
        return 8 * heads
    if meaning == "head_dim" and isinstance(dim, int) and isinstance(heads, int):
        return dim // heads
    if meaning == "kv_heads" and isinstance(heads, int):
        return heads // 2 if heads % 2 == 0 else heads
    if meaning in ("out_dim", "context_dim") and isinstance(dim, int):
        return dim
    return _value(name)


def _strange(name: str, taken: Sequence[str]) -> InputError:
    near = difflib.get_close_matches(name, taken, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    return InputError(
        f"--init says {name}, which the constructor does not take",
        hint=f"{meant}it takes {', '.join(taken) or 'nothing'}",
    )


def _config_parameter(
    parameters: Sequence[Parameter], facts: Mapping[str, Any]
) -> Parameter | None:
    """The argument that takes a configuration object, where there is one."""
    for p in parameters:
        if p["annotation"] in facts["classes"] or word(p["name"], CONSTRUCTOR) == "config":
            return p
    return None


def _configured(
    config: Parameter, facts: Mapping[str, Any], fields: dict[str, Any], source: Source
) -> Construction:
    """A configuration object: the file's class for it, an object of the file, or plain fields."""
    read = fields_read(source, config["name"])
    owner = _config_class(config, facts, fields, read)
    if owner is not None:
        parameters = facts["classes"][owner]["parameters"]
        guessed = _guesses(parameters, fields)
        values = {**fields, **guessed}
        defaults = {p["name"]: p["default"] for p in parameters if not p["required"]}
        init = {"config_class": owner, "config": values}
        return Construction(init, _words({**defaults, **values}), tuple(guessed))
    for name, known in facts["objects"].items():
        if not fields and set(read) <= set(known):
            return Construction({"config_attr": name})
    missing = [{"name": name, "required": True} for name in read]
    guessed = _guesses(missing, fields)
    values = {**fields, **guessed}
    init = {"config_class": "SimpleNamespace", "config": values}
    return Construction(init, _words(values), tuple(guessed))


def _config_class(
    config: Parameter, facts: Mapping[str, Any], fields: Mapping[str, Any], read: Sequence[str]
) -> str | None:
    """The class of the file that the argument is annotated with, or that has what is read."""
    classes = facts["classes"]
    if config["annotation"] in classes:
        return str(config["annotation"])
    for name, about in classes.items():
        own = {p["name"] for p in about["parameters"]} | set(about["fields"])
        if name != facts["name"] and own and {*read, *fields} <= own:
            return str(name)
    return None
