"""One array of a file, for whoever names a file that holds just that: `file("mask.npy")`."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from attn_cli import formats
from attn_cli.core.dump import Dump
from attn_cli.errors import InputError


def load_array(source: str) -> NDArray[Any]:
    """The only array of a file, or the one called `mask`; InputError where there are several."""
    dump = formats.read(source)
    return dump.arrays[only_array(dump)]


def only_array(dump: Dump) -> str:
    """The name of that array."""
    arrays = dump.arrays
    if len(arrays) == 1:
        return next(iter(arrays))
    if "mask" in arrays:
        return "mask"
    raise InputError(
        f"{dump.source} holds {len(arrays)} arrays ({', '.join(arrays)}): expected one alone, or "
        "one called mask"
    )
