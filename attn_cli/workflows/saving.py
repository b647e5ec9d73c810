"""Saving: a trace as a file that is readable again as INPUT and by later commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.layer import merge_heads
from attn_cli.core.settings import Align
from attn_cli.core.trace import SCORE_AXES, Trace
from attn_cli.formats.write import check_target, write
from attn_cli.masks.base import And
from attn_cli.masks.file import Stored
from attn_cli.masks.padding import Padding
from attn_cli.recognize.reading import Reading
from attn_cli.workflows.stages import taken_stages

Array = NDArray[Any]

_ROW_AXES = {
    "keys.received": ("batch", "head", "key"),
    "rows.top_keys": (*SCORE_AXES[:3], "rank"),
    "rows.top_weights": (*SCORE_AXES[:3], "rank"),
}


def check_destination(path: str, *, force: bool) -> None:
    """Raises InputError, before anything is computed, where `path` could not be written."""
    check_target(Path(path), force=force)


def save_trace(path: str, reading: Reading, trace: Trace, *, force: bool) -> None:
    """Every stage that the engine shows with its axes and precision, lse, masks, settings and
    tokens, or nothing.

    With them lies what q, k and v are made of where they are not given: projections, the second
    sequence, tables of positions. So the file read again gives the same stages. Of an engine that
    keeps no weights but has their rows, the numbers of every row lie there in their place, and the
    mask as the expression that it was, since as an array it would be as large as the weights.
    """
    inputs = reading.inputs
    taken = taken_stages(inputs)  # what --values asked for beyond them is a copy
    stages = {name: stage for name, stage in trace.stages.items() if name in taken}
    arrays: dict[str, Array] = {name: stage.array for name, stage in stages.items()}
    if trace.lse is not None:
        arrays["lse"] = trace.lse
    tiled = bool(trace.stats) and "weights" not in {step.stage for step in trace.shapes}
    arrays |= _mask(reading, expressed=tiled)
    axes: dict[str, tuple[str, ...]] = {name: stage.axes for name, stage in stages.items()}
    if tiled:
        arrays |= (rows := _rows(trace))
        axes |= {name: _ROW_AXES.get(name, SCORE_AXES[:3]) for name in rows}
    if inputs.query_lengths is not None:
        arrays["lengths"] = np.array(inputs.query_lengths)
    extras = {"additive_mask": inputs.additive, "bias": inputs.bias, "sinks": inputs.sinks}
    arrays |= {name: array for name, array in extras.items() if array is not None}
    arrays |= {**_made_of(reading), **reading.tables}
    write(
        Path(path),
        arrays,
        dtypes={name: stage.dtype for name, stage in stages.items()},
        axes=axes,
        settings=_settings(reading, expressed=tiled),
        texts=_texts(inputs),
        force=force,
    )


def _mask(reading: Reading, *, expressed: bool) -> dict[str, Array]:
    """The mask as an array; where its expression is saved, what came beside it."""
    mask = reading.inputs.mask
    if mask is None:
        return {}
    if not expressed:
        return {"mask": _smallest(reading.inputs.keep())}
    parts = mask.parts if isinstance(mask, And) else (mask,)
    beside = parts[1:] if reading.settings.mask else parts
    arrays: dict[str, Array] = {}
    for part in beside:
        if isinstance(part, Padding):
            arrays["lengths"] = np.array(part.lengths)
        elif isinstance(part, Stored):
            arrays["mask"] = _smallest(part.visible)
    return arrays


def _rows(trace: Trace) -> dict[str, Array]:
    """One number a row (B, H, L), and what every key receives (B, H, S), by names of their own."""
    rows = {f"rows.{name}": values for name, values in trace.stats.items()}
    if trace.received is not None:
        rows["keys.received"] = trace.received
    if trace.top is not None:
        rows |= {"rows.top_keys": trace.top.keys, "rows.top_weights": trace.top.weights}
    return rows


def _smallest(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The mask with every axis along which it does not change cut to 1."""
    for axis in (0, 1):
        first = mask.take([0], axis)
        if (mask == first).all():
            mask = first
    return mask


def _made_of(reading: Reading) -> dict[str, Array]:
    """Projections (in, out) and the second sequence, by names that are read again."""
    origin = reading.inputs.origin
    if origin is None:  # then keys of a second sequence are its vectors, split into heads
        cross = reading.summary.context is not None
        return {"memory": merge_heads(reading.inputs.k)} if cross else {}
    named: dict[str, Array | None] = {"memory": origin.context}
    if (weights := origin.projections) is not None:
        for letter in "qkvo":
            named[f"W_{letter}"] = getattr(weights, f"w_{letter}")
            named[f"b_{letter}"] = getattr(weights, f"b_{letter}")
    return {name: array for name, array in named.items() if array is not None}


def _settings(reading: Reading, *, expressed: bool) -> dict[str, Any]:
    """What a run on the saved arrays needs to do the same; with the mask, if it is no array."""
    inputs, settings = reading.inputs, reading.settings
    projected = inputs.origin is not None and inputs.origin.projections is not None
    chosen = {
        "heads": settings.heads,
        "kv_heads": settings.kv_heads,
        "scale": inputs.scale,
        "softcap": inputs.softcap,
        "align": _alignment(reading),
        "weights_layout": "in-out" if projected else None,
        "positions": settings.positions,
        "rope_base": settings.rope_base,
        "relative_bidirectional": settings.relative_bidirectional,
        "max_distance": settings.max_distance,
        "mask": settings.mask if expressed else None,
    }
    return {name: value for name, value in chosen.items() if value is not None}


def _alignment(reading: Reading) -> Align | None:
    """The alignment, also where a mask that is saved as an array was what told it."""
    both = reading.summary.context is not None and reading.inputs.q_offset is not None
    return reading.settings.align or ("upper-left" if both else None)


def _texts(inputs: AttentionInputs) -> dict[str, Any]:
    if inputs.labels is None:
        return {}
    texts = {"tokens": [list(tokens) for tokens in inputs.labels.query]}
    if inputs.labels.key != inputs.labels.query:
        texts["context_tokens"] = [list(tokens) for tokens in inputs.labels.key]
    return texts
