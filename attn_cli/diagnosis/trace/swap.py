"""Swapping: the functions of the user's files run their instrumented code while watched."""

from __future__ import annotations

import builtins
import gc
import linecache
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType

from attn_cli.diagnosis.trace.instrument import BEFORE, NAMED, SAW, instrument
from attn_cli.diagnosis.trace.watcher import Watcher

_OURS = Path(__file__).parents[2]  # it may lie below the user's folder, and watches itself not
_LIBRARY = Path(sysconfig.get_path("stdlib"))
MOST_FILES = 40  # that are watched: the user's own, and those beside it


@contextmanager
def watched(file: str, watcher: Watcher) -> Iterator[None]:
    """Shows `watcher` every value that the functions of `file` and of the files below its folder
    compute. Functions keep their identity; afterwards they have their own code again.

    A function whose source is not there, or is not what was imported, runs unwatched.
    """
    functions = _functions(file) if file else {}
    swapped: list[tuple[FunctionType, CodeType]] = []
    try:
        for name in sorted(functions, key=lambda n: (n != file, n))[:MOST_FILES]:
            codes = _instrumented(name, watcher)
            for function in functions[name]:
                new = codes.get(_key(function.__code__))
                if new is not None and new.co_freevars == function.__code__.co_freevars:
                    swapped.append((function, function.__code__))
                    function.__code__ = new
        for word, method in _words(watcher).items():
            setattr(builtins, word, method)
        yield
    finally:
        for function, code in swapped:
            function.__code__ = code
        for word in _words(watcher):
            if hasattr(builtins, word):
                delattr(builtins, word)


def _words(watcher: Watcher) -> dict[str, Callable[..., object]]:
    return {SAW: watcher.saw, BEFORE: watcher.before, NAMED: watcher.named}


def _functions(file: str) -> dict[str, list[FunctionType]]:
    """Every function there is whose code comes from the user's files, by file."""
    everything: dict[str, list[FunctionType]] = {}
    for value in gc.get_objects():
        if type(value) is FunctionType:
            everything.setdefault(value.__code__.co_filename, []).append(value)
    return {name: found for name, found in everything.items() if is_users(name, file)}


def is_users(name: str, file: str) -> bool:
    """Whether a file is the user's: `file`, or one below its folder that is not installed."""
    if name == file:
        return True
    folder, path = Path(file).parent, Path(name)
    if not path.is_relative_to(folder) or "site-packages" in path.parts:
        return False
    return not (path.is_relative_to(_LIBRARY) or path.is_relative_to(_OURS))


def _instrumented(file: str, watcher: Watcher) -> dict[tuple[str, int], CodeType]:
    """The file's functions with watched expressions; none where it cannot be read again."""
    source = "".join(linecache.getlines(file))
    try:
        code, nodes = instrument(source, file, watcher.count)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    watcher.know(file, source.splitlines(), nodes)
    codes: dict[tuple[str, int], CodeType] = {}
    twice: set[tuple[str, int]] = set()
    for inner in _codes(code):
        key = _key(inner)
        twice |= {key} & set(codes)
        codes[key] = inner
    return {key: inner for key, inner in codes.items() if key not in twice}


def _key(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
