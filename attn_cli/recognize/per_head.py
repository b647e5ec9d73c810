"""Per-head matrices, (head, in, d): brought side by side, as the matrix of all heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from attn_cli.core.findings import Finding, note
from attn_cli.errors import InputError, MisfitError
from attn_cli.recognize.parameters import Kind, Parameters, Part
from attn_cli.recognize.settings import Asked

Array = NDArray[Any]
Named = Mapping[tuple[Part, Kind], Array]


def side_by_side(
    arrays: Named, parameters: Parameters, asked: Asked
) -> tuple[Named, Asked, tuple[Finding, ...]]:
    """TransformerLens keeps W_Q (head, d_model, d) and W_O (head, d, d_model): these as matrices.

    W_q and what else has three axes become (in, heads · d), W_o (heads · d, out), and their biases
    (head, d) one row; the counts of heads are then as if they had been asked for. Arrays with
    other axes stay as they are. Raises InputError where another count was asked for.
    """
    heads: dict[Part, int] = {
        part: array.shape[0]
        for (part, kind), array in arrays.items()
        if kind == "weight" and array.ndim == 3 and part in ("q", "k", "v", "o")
    }
    if not heads:
        return arrays, asked, ()
    flat = {
        (part, kind): _flat(array, part, kind) if part in heads else array
        for (part, kind), array in arrays.items()
    }
    names = ", ".join(parameters.label(part) for part in heads)
    said = note("per-head-weights", f"{names}: one matrix a head, (in, out), put side by side")
    return flat, _with_counts(heads, asked), (said,)


def _flat(array: Array, part: Part, kind: Kind) -> Array:
    if kind == "bias":
        return array.reshape(-1) if array.ndim == 2 and part != "o" else array
    if array.ndim != 3:
        return array
    heads, rows, columns = array.shape
    if part == "o":
        return array.reshape(heads * rows, columns)
    return array.swapaxes(0, 1).reshape(rows, heads * columns)


def _with_counts(heads: Mapping[Part, int], asked: Asked) -> Asked:
    choices = asked.choices
    if choices.weights_layout == "out-in":
        raise InputError(
            f"{asked.origin('weights_layout')} is out-in, and matrices with an axis of heads are "
            "(head, in, out)"
        )
    counts = {"heads": heads.get("q", heads.get("o")), "kv_heads": heads.get("k")}
    for name, count in counts.items():
        wanted = getattr(choices, name)
        if wanted is not None and count is not None and wanted != count:
            raise MisfitError(f"{asked.origin(name)} is {wanted}, and the matrices have {count}")
    return replace(
        asked,
        choices=replace(
            choices,
            weights_layout="in-out",
            heads=counts["heads"] or choices.heads,
            kv_heads=counts["kv_heads"] or choices.kv_heads,
        ),
    )
