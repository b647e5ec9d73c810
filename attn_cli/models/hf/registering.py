"""Registering one attention function and one mask function under one name, and undoing it.

transformers asks two tables by the same name: one for the function that attends, one for the
function that makes its mask. Where the second has no entry no mask is made and causal models turn
bidirectional without a word, so both are registered here, together. The name is the one that the
model goes by already: nothing in its configuration changes, so code that asks "is it eager or
sdpa?" gets the answer that it always gets.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from torch import nn

from attn_cli.errors import UnsupportedError
from attn_cli.models.hf.extra import transformers

Function = Callable[..., Any]
_ASKED = re.compile(r"get_interface\(\s*self\.config\._attn_implementation\s*,\s*(\w+)")
_MISSING = object()


@contextmanager
def registered(name: str, attention: Function, mask: Function) -> Iterator[None]:
    """Both tables answer with these functions for `name`; afterwards they are as they were."""
    package = transformers()
    tables = (package.AttentionInterface, package.AttentionMaskInterface)
    before = [table._global_mapping.get(name, _MISSING) for table in tables]
    try:
        for table, function in zip(tables, (attention, mask), strict=True):
            table.register(name, function)
        yield
    finally:
        for table, function in zip(tables, before, strict=True):
            if function is _MISSING:
                table._global_mapping.pop(name, None)  # there is no unregister
            else:
                table.register(name, function)


def own_functions(name: str) -> tuple[Function | None, Function]:
    """What transformers has for a name: the attention (None for eager) and the mask function."""
    package = transformers()
    attention = package.AttentionInterface._global_mapping.get(name)
    return attention, package.AttentionMaskInterface._global_mapping[name]


def eager_function(kind: type[nn.Module]) -> Function:
    """The eager function that a family gives as its default, found in the class's own file.

    transformers keeps no table of them: each modeling file passes its own where it asks for one.
    """
    for owner in kind.__mro__:
        module = sys.modules.get(owner.__module__)
        names = (*_asked_for(owner), "eager_attention_forward")
        for name in names if issubclass(owner, nn.Module) else ():
            function = getattr(module, name, None)
            if callable(function):
                return function  # type: ignore[no-any-return]
    raise UnsupportedError(
        f"{kind.__name__} asks for an eager attention function that attn does not find",
        hint="--backend sdpa, if the model can",
    )


@lru_cache(maxsize=256)
def _asked_for(owner: Hashable) -> tuple[str, ...]:
    """The names that a class's source gives as defaults."""
    try:
        return tuple(_ASKED.findall(inspect.getsource(owner)))  # type: ignore[arg-type]
    except (OSError, TypeError):  # no source to read
        return ()
