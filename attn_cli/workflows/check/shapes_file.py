"""Shapes from a file: its headers understood as a run would read it, and the trace they give."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from attn_cli import formats
from attn_cli.core.cost import works
from attn_cli.core.dump import Dump
from attn_cli.core.geometry import Geometry, LayerGeometry
from attn_cli.core.problems import Problem
from attn_cli.core.results_shapes import LayerShapes, ShapesResult
from attn_cli.core.steps import steps
from attn_cli.errors import InputError, MisfitError
from attn_cli.models import is_model
from attn_cli.recognize import understand
from attn_cli.recognize.headers import readable, unread
from attn_cli.recognize.one_array import load_array
from attn_cli.recognize.reading import Reading
from attn_cli.recognize.roles import find_roles
from attn_cli.workflows.check.shapes_fit import dtype_problem, widths
from attn_cli.workflows.check.shapes_layers import Counted, Shown, inner_of, measured
from attn_cli.workflows.check.shapes_options import ShapesOptions, check_choices
from attn_cli.workflows.check.shapes_pairs import (
    Grid,
    Visible,
    expression_of,
    in_full,
    mask_problems,
)

# Notes of a reading that say that numbers of the file hide keys.
HIDING = frozenset({"mask-kind", "lengths", "bias-hides"})
# Notes of a reading that say how it came to these shapes, where the trace itself does not show it.
CHOSEN = frozenset({
    "layout", "no-projections", "no-output-projection", "one-array", "names", "alignment",
    "fused-weights", "per-head-weights", "weights-layout", "settings-from-file", "x-beside-qkv",
    "mixed-precision", "positions-unused", "csv-header", "csv-tokens",
})  # fmt: skip


def of_file(source: str, options: ShapesOptions, *, stdin: BinaryIO | None = None) -> ShapesResult:
    """The trace of what a file holds, from its headers; a mismatch is a problem, not an error.

    InputError where a file cannot be read, holds nothing to attend over, or leaves open what it
    means until an option says so.
    """
    dump = _read(source, options, stdin)
    if is_model(dump):
        from attn_cli.workflows.check.shapes_model import of_model

        return of_model(dump, options)
    options.refuse_idle("a file of its own sizes", dump.source)
    second = None if options.context is None else _read(options.context, options, stdin)
    layer = None if options.weights is None else _read(options.weights, options, stdin)
    check_choices(options.choices)
    _check_holds(dump, remade=layer is not None)
    try:
        reading = understand(dump, options.choices, context=second, weights=layer, load=load_array)
    except MisfitError as error:
        return _result(dump, (), (Problem("does-not-fit", in_full(error), file=source),), ())
    files = [each for each in (dump, second, layer) if each is not None]
    return _of_reading(dump, reading, options, blank=[n for each in files for n in unread(each)])


def _read(source: str, options: ShapesOptions, stdin: BinaryIO | None) -> Dump:
    return readable(formats.read_headers(source, stdin=stdin), options.choices)


def _check_holds(dump: Dump, *, remade: bool) -> None:
    """InputError for a file that holds nothing to attend over, or the weights of a model."""
    try:
        find_roles(dump, remade=remade)
    except InputError as error:
        folder = Path(dump.source).parent
        beside = (folder / "config.json").is_file()
        hint = f"a checkpoint is read by its folder: {folder}" if beside else error.hint
        raise InputError(f"{dump.source}: {error.message}", hint) from error


def _of_reading(
    dump: Dump, reading: Reading, options: ShapesOptions, *, blank: list[str]
) -> ShapesResult:
    inputs, settings = reading.inputs, reading.settings
    dtype = options.dtype or reading.summary.precision
    batch, heads, queries, keys = inputs.shape
    offset = inputs.q_offset or 0
    ends = queries != keys and offset == keys - queries
    shown = Shown(
        grid=Grid(
            batch=batch,
            heads=heads,
            queries=queries,
            keys=keys,
            align="lower-right" if ends else "upper-left" if queries != keys else None,
        ),
        dtype=dtype,
        expression=expression_of((settings.mask,) if settings.mask else ()),
    )
    layer = geometry_of(reading)
    problems = [each for each in (dtype_problem(dtype),) if each is not None]
    groups: tuple[LayerShapes, ...] = ()
    if not problems:
        problems = [*mask_problems(shown.expression, shown.grid), *widths(layer, dtype)]
        done = works(steps(inputs, dtype), inner_of(inputs), layer.biases)
        groups = (measured(done, layer, shown, [0], _counted(reading, read=not blank)),)
        groups = (replace(groups[0], sizes=replace(groups[0].sizes, align=settings.align)),)
    return _result(dump, groups, tuple(problems), tuple(_says(reading)), layer, blank)


def _counted(reading: Reading, *, read: bool) -> Counted | None:
    """The visible pairs where numbers of the file hide keys; None where an expression says all.

    They are counted where the file was read whole, as text is.
    """
    if not HIDING & {finding.code for finding in reading.findings}:
        return None
    if not read:
        return Counted(None, read=False)
    inputs = reading.inputs
    counts = np.full(inputs.shape[:2], math.prod(inputs.shape[2:]))
    for item in range(inputs.shape[0]):
        seen = inputs.counted(item)
        if seen is not None:
            counts[item] = seen.sum((1, 2))
    alike = len(np.unique(counts)) == 1
    return Counted(Visible(int(counts.sum()), int(counts[0, 0]) if alike else None))


def geometry_of(reading: Reading) -> Geometry:
    """The sizes of the layer that a reading asks for."""
    inputs = reading.inputs
    weights = inputs.origin.projections if inputs.origin else None
    vectors = reading.summary.kind == "token vectors" and inputs.x is not None
    biases = [name for name in "qkvo" if getattr(weights, f"b_{name}", None) is not None]
    context = inputs.origin.context if inputs.origin else None
    return Geometry(
        heads=inputs.shape[1],
        kv_heads=inputs.kv_heads,
        d_k=inputs.q.shape[-1],
        d_v=inputs.v.shape[-1],
        d_model=inputs.x.shape[-1] if vectors and inputs.x is not None else None,
        d_context=None if context is None else context.shape[-1],
        d_out=None if weights is None or weights.w_o is None else weights.w_o.shape[1],
        projected=weights is not None,
        biases=frozenset(biases),
        cross=context is not None,
        scale=inputs.scale,
        softcap=inputs.softcap,
        sinks=inputs.sinks is not None,
        positions=reading.settings.positions,
    )


def _says(reading: Reading) -> Iterator[str]:
    """What the reading chose and what it left out, as far as shapes depend on it."""
    for finding in reading.findings:
        if finding.code in CHOSEN or finding.code.startswith("ignored-"):
            yield finding.message


def _result(
    dump: Dump,
    groups: tuple[LayerShapes, ...],
    problems: tuple[Problem, ...],
    says: tuple[str, ...],
    layer: Geometry | None = None,
    blank: list[str] | None = None,
) -> ShapesResult:
    return ShapesResult(
        kind="file",
        source=dump.source,
        says=says,
        layers=(LayerGeometry(path="", index=0, kind="softmax", says="", geometry=layer),),
        groups=groups,
        problems=problems,
        coverage=_coverage(dump, blank or []),
    )


def _coverage(dump: Dump, blank: list[str]) -> str:
    """What was looked at, and what only numbers could tell."""
    if dump.format in ("json", "csv"):
        return "the numbers are text, so the file was read whole; nothing was computed"
    hides = f", nor which keys {' and '.join(sorted(set(blank)))} hide" if blank else ""
    return f"headers only: no number was read, so neither NaN nor inf is looked for{hides}"
