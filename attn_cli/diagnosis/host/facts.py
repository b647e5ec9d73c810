"""Facts: what can be read off somebody's object without calling it, as JSON values."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from types import ModuleType
from typing import Any

from attn_cli.diagnosis.host.loading import callables

_LONGEST = 100_000  # characters of source
_SIMPLE = (bool, int, float, str, type(None))


def about(value: Any, module: ModuleType | None) -> dict[str, Any]:
    """What it is, how it is called and built, its source, and what else its file defines."""
    kind = kind_of(value)
    is_class = inspect.isclass(value)
    first, source = _source(value)
    return {
        "kind": kind,
        "name": getattr(value, "__name__", type(value).__name__),
        "file": _file(value),
        "line": first,
        "source": source,
        "doc": inspect.getdoc(value) or "",
        "init": parameters(value) if is_class else None,
        "call": parameters(entry_of(value), bound=is_class),
        "classes": _classes(module),
        "objects": _objects(module),
        "uses": [name for name in ("torch", "numpy") if module and _mentions(module, name)],
    }


def kind_of(value: Any) -> str:
    """module class | class | function | module | instance."""
    torch_module = _torch_module()
    if inspect.isclass(value):
        ours = torch_module is not None and issubclass(value, torch_module)
        return "module class" if ours else "class"
    if torch_module is not None and isinstance(value, torch_module):
        return "module"
    return "function" if inspect.isroutine(value) else "instance"


def entry_of(value: Any) -> Any:
    """The function that computes: forward of a module, __call__ or forward of an object."""
    if kind_of(value) == "function":
        return value
    owner = value if inspect.isclass(value) else type(value)
    forward = getattr(owner, "forward", None)
    if kind_of(value).startswith("module") or "__call__" not in _own_names(owner):
        return forward if forward is not None else getattr(owner, "__call__", None)  # noqa: B004
    return getattr(owner, "__call__")  # noqa: B004, B009


def parameters(function: Any, *, bound: bool = False) -> list[dict[str, Any]]:
    """The parameters of a signature, without self; empty where there is none to read."""
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []
    if found and found[0].name == "self":
        found = found[1:]
    return [_parameter(p) for p in found]


def _parameter(p: inspect.Parameter) -> dict[str, Any]:
    required = p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    note = p.annotation
    return {
        "name": p.name,
        "kind": p.kind.name.lower(),
        "required": required,
        "default": p.default if isinstance(p.default, _SIMPLE) and not required else None,
        "annotation": ""
        if note is p.empty
        else (note if isinstance(note, str) else getattr(note, "__name__", str(note))),
    }


def _own_names(owner: type) -> set[str]:
    return {name for base in owner.__mro__ if base is not object for name in vars(base)}


def _source(value: Any) -> tuple[int, str]:
    target = value if inspect.isclass(value) or inspect.isroutine(value) else type(value)
    try:
        lines, first = inspect.getsourcelines(target)
    except (OSError, TypeError):
        return 1, ""
    return first, "".join(lines)[:_LONGEST]


def _file(value: Any) -> str | None:
    target = value if inspect.isclass(value) or inspect.isroutine(value) else type(value)
    try:
        return inspect.getsourcefile(target)
    except TypeError:
        return None


def _classes(module: ModuleType | None) -> dict[str, Any]:
    """The classes of the file that may configure others, each with its constructor's parameters:
    those that compute nothing themselves."""
    if module is None:
        return {}
    return {
        name: {
            "parameters": parameters(vars(module)[name]),
            "dataclass": dataclasses.is_dataclass(vars(module)[name]),
            "fields": _class_fields(vars(module)[name]),
        }
        for name in callables(module)
        if inspect.isclass(vars(module)[name]) and not _computes(vars(module)[name])
    }


def _computes(owner: type) -> bool:
    return bool({"forward", "__call__"} & _own_names(owner))


def _class_fields(owner: type) -> list[str]:
    """The plain values that a class itself holds: `class Config: n_head = 4`."""
    return [
        name
        for name, value in vars(owner).items()
        if not name.startswith("_") and isinstance(value, _SIMPLE)
    ]


def _objects(module: ModuleType | None) -> dict[str, list[str]]:
    """The file's objects that look like a configuration: name → its plain fields."""
    found = {}
    for name, value in vars(module).items() if module else ():
        fields = getattr(value, "__dict__", None)
        if name.startswith("__") or inspect.ismodule(value) or callable(value) or not fields:
            continue
        found[name] = [field for field, v in fields.items() if isinstance(v, _SIMPLE)]
    return {name: fields for name, fields in found.items() if fields}


def _mentions(module: ModuleType, library: str) -> bool:
    """Whether the module holds the library, or something out of it, by any name."""
    names = (
        value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None)
        for value in vars(module).values()
    )
    return any(isinstance(n, str) and n.split(".")[0] == library for n in names)


def _torch_module() -> Any:
    torch = sys.modules.get("torch")
    return None if torch is None else torch.nn.Module
