"""Dumps made by hand, as a reader of files would give them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.dump import Dump
from attn_cli.core.settings import Choices
from attn_cli.recognize import understand
from attn_cli.recognize.reading import Reading


def dump_of(
    *,
    texts: Any = None,
    settings: Any = None,
    dtypes: Any = None,
    source: Any = "file.npz",
    unnamed: Any = False,
    axes: Any = None,
    others: Any = None,
    **arrays: Any,
) -> Dump:
    """A dump of these arrays; `dtypes` for those that a file holds in another precision."""
    held = {name: array.dtype.name for name, array in arrays.items()} | (dtypes or {})
    return Dump(
        source=source,
        format="npz",
        arrays=arrays,
        dtypes=held,
        sha256="0" * 64,
        unnamed=unnamed,
        texts=texts or {},
        settings=settings or {},
        axes=axes or {},
        others=others or {},
    )


def normal(*shape: int, seed: int = 0) -> NDArray[np.float64]:
    """Unit normal numbers, the same in every run."""
    return np.random.default_rng(seed).normal(size=shape)


def qkv(
    q: tuple[int, ...], k: tuple[int, ...] | None = None, v: tuple[int, ...] | None = None
) -> dict[str, NDArray[Any]]:
    """q, k and v of these shapes; k and v are like q, and v like k, unless told."""
    k = k or q
    return {
        "q": normal(*q, seed=1),
        "k": normal(*k, seed=2),
        "v": normal(*(v or k), seed=3),
    }


def read(dump: Dump, **choices: Any) -> Reading:
    """The dump understood under these choices."""
    return understand(dump, Choices(**choices))


def codes(reading: Reading) -> list[str]:
    """The codes of its findings, in order."""
    return [finding.code for finding in reading.findings]


def said(reading: Reading, code: str) -> str:
    """The message of the one finding with this code."""
    (message,) = [finding.message for finding in reading.findings if finding.code == code]
    return message
