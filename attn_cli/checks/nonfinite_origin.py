"""Findings about NaN and ±inf in what makes q, k and v: projections, positions, the context."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.findings import Finding, Place
from attn_cli.core.layer import Origin

Array = NDArray[Any]


def origin_findings(origin: Origin, seen: NDArray[np.bool_]) -> Iterator[Finding]:
    """An error for every array of the layer that holds NaN or inf, with its first coordinates.

    `seen` (B, S) says which vectors of the context some query looks at; others take no part.
    """
    if origin.context is not None:
        bad = ~np.isfinite(origin.context) & seen[..., None]
        if bad.any():
            yield _finding("the context", "k", origin.context, bad, ("item", "vector", "feature"))
    for name in ("encoding", "context_encoding"):
        array = getattr(origin, name)
        if array is not None and not np.isfinite(array).all():
            bad = ~np.isfinite(array)
            yield _finding("the table of positions", "x_positions", array, bad, ("row", "feature"))
            break  # both come from one table
    if origin.projections is None:
        return
    for field in fields(origin.projections):
        array = getattr(origin.projections, field.name)
        if array is not None and not np.isfinite(array).all():
            kind, letter = field.name.split("_")
            what = f"{kind.upper() if kind == 'w' else kind}_{letter}"
            stage = "output" if letter == "o" else letter
            axes = ("row", "column") if kind == "w" else ("feature",)
            yield _finding(what, stage, array, ~np.isfinite(array), axes)


def _finding(
    what: str, stage: str, array: Array, bad: NDArray[np.bool_], axes: tuple[str, ...]
) -> Finding:
    where = np.unravel_index(int(bad.argmax()), bad.shape)
    at = ", ".join(
        f"{axis} {index}"
        for axis, index, size in zip(axes, where, bad.shape, strict=True)
        if axis != "item" or size > 1
    )
    nan = int(np.isnan(array[bad]).sum())
    return Finding(
        "nonfinite",
        "error",
        f"{what} holds {number_of(nan, int(bad.sum()) - nan)}, the first at {at}",
        Place(stage=stage, layer=0),
    )


def number_of(nan: int, inf: int) -> str:
    """`2 NaN and 1 inf`, less what there is none of."""
    parts = [f"{number:,} {word}" for number, word in ((nan, "NaN"), (inf, "inf")) if number]
    return " and ".join(parts)
