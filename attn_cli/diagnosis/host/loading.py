"""Loading: FILE.py:NAME or package.module:NAME to the object, by importing it (which runs it)."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from attn_cli.diagnosis.host.trouble import Trouble, from_exception


class Unloadable(Exception):
    """Carries the Trouble that says why."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.message)
        self.trouble = trouble


def import_file(path: Path) -> ModuleType:
    """The file as a module, with its folder importable, or as part of the package it lies in."""
    root, parts = path.parent, [path.stem]
    while (root / "__init__.py").is_file() and root != root.parent:
        parts.insert(0, root.name)
        root = root.parent
    _make_importable(root)
    if len(parts) > 1:
        return _import_name(".".join(parts), str(path))
    # A file that is called like a module which is there already must not take its place.
    taken = path.stem in sys.modules or path.stem in sys.stdlib_module_names
    name = f"_attn_{path.stem}" if taken or not path.stem.isidentifier() else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Unloadable(Trouble("import", "suffix", f"{path.name} is no Python file"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    sys.argv = [str(path)]
    try:
        spec.loader.exec_module(module)
    except BaseException as error:  # whatever it does at import, sys.exit included
        del sys.modules[name]
        raise Unloadable(from_exception("import", error, str(path))) from error
    return module


def import_module(name: str) -> ModuleType:
    """A module by its dotted name, looked for beside the working directory first."""
    _make_importable(Path.cwd())
    return _import_name(name, None)


def find(module: ModuleType, name: str) -> Any:
    """The object called `name` (dots reach into classes); Unloadable where it is no callable."""
    value: Any = module
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            known = callables(module)
            raise Unloadable(
                Trouble("find", "missing", f"there is no {name}", candidates=known)
            ) from None
    if callable(value) or callable(getattr(value, "forward", None)):
        return value
    article = "an" if type(value).__name__[0] in "aeiou" else "a"
    message = f"{name} is {article} {type(value).__name__} and cannot be called"
    raise Unloadable(Trouble("find", "not callable", message, candidates=callables(module)))


def callables(module: ModuleType) -> tuple[str, ...]:
    """The functions and classes that the module itself defines, in the order of the file."""
    return tuple(
        name
        for name, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", None) == module.__name__
    )


def _import_name(name: str, file: str | None) -> ModuleType:
    sys.argv = [file or name]
    try:
        return importlib.import_module(name)
    except BaseException as error:
        trouble = from_exception("import", error, file or _file_of(name))
        raise Unloadable(trouble) from error


def _file_of(name: str) -> str | None:
    try:
        spec = importlib.util.find_spec(name)
    except BaseException:
        return None
    return spec.origin if spec is not None else None


def _make_importable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
