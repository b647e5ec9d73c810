"""Building: the object that is called, and the numbers in it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.diagnosis.host.facts import entry_of, kind_of, parameters

Array = NDArray[Any]

_DEEPEST = 4


def build(target: Any, init: dict[str, Any] | None, module: ModuleType | None, dtype: str) -> Any:
    """What is called: a function or an instance itself, a class or factory called with `init`.

    Built with seed 0 of every generator, in eval mode; a module's numbers are in `dtype`.
    """
    kind = kind_of(target)
    if kind in ("module", "instance") or (kind == "function" and not init):
        built = target
    else:
        args, kwargs = _arguments(init or {}, module)
        built = target(*args, **kwargs)
    if kind_of(built) == "module":
        built.to(getattr(sys.modules["torch"], dtype))
        built.eval()
    return built


def _arguments(init: dict[str, Any], module: ModuleType | None) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of the constructor; {"$name": N} is the file's object called N."""
    names = {} if module is None else vars(module)
    if init.get("config_attr"):
        return [_named(init["config_attr"], names)], {}
    if init.get("config_class"):
        return [_config(init["config_class"], init.get("config") or {}, names)], {}
    args = [_value(v, names) for v in init.get("args", ())]
    return args, {name: _value(v, names) for name, v in init.get("kwargs", {}).items()}


def _value(value: Any, names: dict[str, Any]) -> Any:
    if isinstance(value, dict) and set(value) == {"$name"}:
        return _named(value["$name"], names)
    return value


def _named(name: str, names: dict[str, Any]) -> Any:
    if name not in names:
        raise NameError(f"the file has no {name}")
    return names[name]


def _config(name: str, fields: dict[str, Any], names: dict[str, Any]) -> Any:
    """An instance with these fields: by the constructor where it takes them, else set on it."""
    if name == "SimpleNamespace":
        return SimpleNamespace(**fields)
    owner = _named(name, names)
    taken = {p["name"] for p in parameters(owner)}
    if dataclasses.is_dataclass(owner) or set(fields) <= taken:
        return owner(**fields)
    config = owner(**{key: v for key, v in fields.items() if key in taken})
    for key, value in fields.items():
        if key not in taken:
            setattr(config, key, value)
    return config


def describe(built: Any) -> dict[str, Any]:
    """The built object's tensors and plain attributes, and how it is called."""
    settings: dict[str, Any] = {}
    for name, value in vars(built).items() if hasattr(built, "__dict__") else ():
        if isinstance(value, bool | int | float | str):
            settings[name] = value
        elif name.lower() in ("config", "cfg", "args", "hparams", "conf"):
            inner = value if isinstance(value, dict) else getattr(value, "__dict__", {})
            plain = {k: v for k, v in inner.items() if isinstance(v, bool | int | float | str)}
            settings |= {f"{name}.{key}": v for key, v in plain.items()}
    for path, part in _parts(built):
        plain = {k: v for k, v in getattr(part, "__dict__", {}).items() if type(v) in (int, float)}
        settings |= {f"{path}.{key}": v for key, v in plain.items()}
    return {
        "kind": kind_of(built),
        "type": type(built).__name__,
        "call": parameters(entry_of(built)),
        "tensors": list(_tensors(built)),
        "settings": settings,
    }


def _tensors(built: Any) -> Iterator[dict[str, Any]]:
    """Every float tensor or array, with its dotted name and the class that holds it.

    A parameter that the module knows by further names (tied weights) comes again by each of them,
    `same_as` being the first.
    """
    if kind_of(built) == "function":
        return
    seen: dict[int, str] = {}
    known = _every_name(built)
    for path, owner in _owners(built, "", 0):
        for name, value, learned in _held(owner):
            shape = _float_shape(value)
            whole = f"{path}.{name}" if path else name
            if shape is None or (id(value) in seen and whole not in known):
                continue
            first = seen.setdefault(id(value), whole)
            yield {
                "name": whole,
                "same_as": first if first != whole else None,
                "shape": list(shape),
                "owner": type(owner).__name__ if path else "",
                "family": _family(owner),
                "part": name,
                "learned": learned,
            }


def _every_name(built: Any) -> frozenset[str]:
    """The names of a module's parameters, all of those that are one tensor included."""
    if kind_of(built) != "module":
        return frozenset()
    return frozenset(name for name, _ in built.named_parameters(remove_duplicate=False))


def _owners(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """The object and all that it is made of: modules, lists of them, objects of the same file."""
    yield path, value
    if depth >= _DEEPEST:
        return
    for name, part in _parts(value):
        inner = f"{path}.{name}" if path else name
        yield from _owners(part, inner, depth + 1)


def _parts(value: Any) -> list[tuple[str, Any]]:
    if kind_of(value) == "module":
        children = getattr(value, "_modules", {})  # named_children leaves further names out
        parts = [(name, part) for name, part in children.items() if part is not None]
    elif isinstance(value, list | tuple):
        parts = [(str(i), part) for i, part in enumerate(value[:64])]
    else:
        parts = []
    home = type(value).__module__
    for name, part in getattr(value, "__dict__", {}).items():
        if name in ("_modules", "_parameters", "_buffers") or isinstance(part, type):
            continue
        own = type(part).__module__ == home and hasattr(part, "__dict__")
        listed = isinstance(part, list | tuple) and any(hasattr(p, "__dict__") for p in part)
        if own or listed or (kind_of(part) == "module" and kind_of(value) != "module"):
            parts.append((name, part))
    return parts


def _held(owner: Any) -> Iterator[tuple[str, Any, bool]]:
    """(name, tensor or array, whether it is a parameter) that the owner itself holds."""
    fields = getattr(owner, "__dict__", {})
    for name, value in fields.get("_parameters", {}).items():
        yield name, value, True
    for name, value in fields.get("_buffers", {}).items():
        yield name, value, False
    plain = kind_of(owner) != "module"
    for name, value in fields.items():
        yield name, value, plain
    if isinstance(owner, list | tuple):
        for index, value in enumerate(owner):
            yield str(index), value, plain


def _float_shape(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, np.ndarray):
        return value.shape if value.dtype.kind == "f" else None
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor) and value.is_floating_point():
        return tuple(value.shape)
    return None


def _family(owner: Any) -> str:
    """What kind of layer holds a tensor: linear, conv, embedding, mha, norm, or nothing known."""
    torch = sys.modules.get("torch")
    if torch is None or kind_of(owner) != "module":
        return ""
    nn = torch.nn
    families = {
        "linear": nn.Linear,
        "conv": (nn.Conv1d, nn.Conv2d),
        "embedding": nn.Embedding,
        "mha": nn.MultiheadAttention,
        "norm": (nn.LayerNorm, getattr(nn, "RMSNorm", nn.LayerNorm)),
    }
    return next((name for name, cls in families.items() if isinstance(owner, cls)), "")


def get(built: Any, path: str) -> Any:
    """The part of the object at a dotted path."""
    value = built
    for part in path.split("."):
        value = value[int(part)] if isinstance(value, list | tuple) else getattr(value, part)
    return value


def read(built: Any, path: str) -> Array:
    """The tensor or array at a dotted path as float64."""
    value = get(built, path)
    array = value if isinstance(value, np.ndarray) else value.detach().double().numpy()
    return np.asarray(array, np.float64)


def write(built: Any, path: str, array: Array, dtype: str) -> None:
    """Puts numbers into the tensor or array at a dotted path, in its own shape."""
    holder_path, _, name = path.rpartition(".")
    holder = get(built, holder_path) if holder_path else built
    value = holder[int(name)] if isinstance(holder, list | tuple) else getattr(holder, name)
    if isinstance(value, np.ndarray):
        new = array.astype(dtype).reshape(value.shape)
        if isinstance(holder, list):
            holder[int(name)] = new
        else:
            setattr(holder, name, new)
        return
    torch = sys.modules["torch"]
    with torch.no_grad():
        value.copy_(torch.as_tensor(array.reshape(tuple(value.shape))))
