"""Headers understood: a dump read for its shapes alone, made ready to be read like any other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from attn_cli.core.blank import Blank, blank
from attn_cli.core.dump import Dump
from attn_cli.core.names import INPUT_WORDS, TEXT_WORDS, meaning
from attn_cli.core.settings import Choices

Array = NDArray[Any]

LONGEST = 1 << 20  # positions that are named by tokens, items that have lengths
_MASKS = ("mask", "attention_mask", "key_padding_mask", "padding_mask", "additive_mask")
_VECTORS = ("x", "q", "k", "v", "context")
_LENGTHS = ("lengths", "context_lengths")


def readable(dump: Dump, choices: Choices) -> Dump:
    """The dump as recognition needs it: masks hold a number that says of what kind they are.

    A float mask is taken for one that is added, unless something else is told; bool and integer
    masks are 0 and 1. Tokens and lengths that would name millions of positions are left out. Of
    text, which was read whole, the numbers that nothing depends on become blank: what is made of
    them takes no time then.
    """
    if not any(isinstance(array, Blank) for array in dump.arrays.values()):
        return replace(dump, arrays={n: _without(n, array) for n, array in dump.arrays.items()})
    told = choices.mask_means or dump.settings.get("mask_means")
    long = any(max(array.shape, default=0) > LONGEST for array in dump.arrays.values())
    arrays = dict(_arrays(dump, 0.0 if told in ("keep", "hidden") else -1.0, long=long))
    dtypes = {name: dump.dtypes[name] for name in arrays}
    return replace(dump, arrays=arrays, dtypes=dtypes, texts={} if long else dump.texts)


def _without(name: str, array: Array) -> Array:
    """An array of vectors without its numbers; others as they are."""
    vectors = meaning(name, INPUT_WORDS) in _VECTORS and array.dtype.kind == "f"
    return blank(array.shape, array.dtype) if vectors else array


def unread(dump: Dump) -> tuple[str, ...]:
    """The blank arrays whose numbers decide what is visible: masks and lengths."""
    return tuple(
        name
        for name, array in dump.arrays.items()
        if isinstance(array, Blank) and meaning(name, INPUT_WORDS) in (*_MASKS, *_LENGTHS)
    )


def _arrays(dump: Dump, fill: float, *, long: bool) -> Iterator[tuple[str, Array]]:
    for name, array in dump.arrays.items():
        role = meaning(name, INPUT_WORDS)
        words = meaning(name, TEXT_WORDS) is not None
        if long and (words or role in _LENGTHS):
            continue
        if isinstance(array, Blank) and role in _MASKS and array.dtype.kind == "f":
            yield name, blank(array.shape, array.dtype, fill)
        else:
            yield name, array
