"""run: attention from Python, on arrays, tensors, files or AttentionInputs, in one call."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from typing import Any

import numpy as np

from attn_cli import formats
from attn_cli.checks.run_checks import RunChecks
from attn_cli.core.dump import Dump
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.masks import MaskContext
from attn_cli.core.results import InputSummary
from attn_cli.core.settings import (
    Align,
    Choices,
    Init,
    Layout,
    MaskMeans,
    Scale,
    Settings,
    WeightsLayout,
)
from attn_cli.core.trace import Trace
from attn_cli.engines import ENGINES
from attn_cli.errors import InputError
from attn_cli.masks.base import And
from attn_cli.masks.expression import conjunction, parse
from attn_cli.models import is_model
from attn_cli.recognize import understand
from attn_cli.recognize.from_memory import dump_from
from attn_cli.recognize.one_array import load_array
from attn_cli.recognize.reading import Reading
from attn_cli.workflows.run import RunOptions, compute


def run(
    inputs: str | PathLike[str] | AttentionInputs | Mapping[str, Any] | Any,
    *,
    mask: str | Iterable[str] = (),
    heads: int | None = None,
    kv_heads: int | None = None,
    scale: Scale | None = None,
    softcap: float | None = None,
    align: Align | None = None,
    layout: Layout | None = None,
    mask_means: MaskMeans | None = None,
    mask_axes: str | None = None,
    weights: str | PathLike[str] | Mapping[str, Any] | None = None,
    weights_layout: WeightsLayout | None = None,
    init: Init | None = None,
    seed: int | None = None,
    d_k: int | None = None,
    d_v: int | None = None,
    positions: str | None = None,
    rope_base: float | None = None,
    relative_bidirectional: bool | None = None,
    max_distance: int | None = None,
    engine: str = "numpy",
    dtype: str = "float64",
    device: str = "cpu",
    keep: Iterable[str] | None = None,
) -> Trace:
    """Attention on `inputs`, as `attn run` computes it: every stage, statistic and finding.

    `inputs`: a file's path; a mapping of arrays by the names that a file may use ("q", "k", "v",
    "x", "mask", "w_q", …); one array of token vectors (L, d_model) or (B, L, d_model); or
    AttentionInputs, which take `mask`, `scale`, `softcap` and `align` alone. Arrays may be NumPy's
    or tensors. `mask` is an expression ("causal & window(4)"), or several that all must hold.
    `weights` brings a layer's projections, as a path or a mapping such as a state_dict; the other
    names are those of the options. `keep` names the stages to hold, None all that the engine
    shows. Raises AttnError for impossible input.

    >>> trace = run([[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]], mask="causal")
    >>> trace["weights"].round(5)[0, 0].tolist()
    [[1.0, 0.0, 0.0], [0.26894, 0.73106, 0.0], [0.27407, 0.27407, 0.45186]]
    """
    choices = _choices(dict(locals()))
    reading = read_given(inputs, choices, weights)
    checks = RunChecks(reading.inputs, file_precision=reading.summary.precision)
    options = RunOptions(choices=choices, engine=engine, dtype=dtype, device=device)
    every = ENGINES[engine].can.known(reading.inputs)
    wanted = every if keep is None else frozenset(keep)
    return compute(reading, options, checks, keep=wanted)


def _choices(given: Mapping[str, Any]) -> Choices:
    """The choices among the arguments of `run`, by their names."""
    mask = given["mask"]
    alike = {field.name for field in dataclasses.fields(Choices)} & given.keys()
    return Choices(
        masks=(mask,) if isinstance(mask, str) else tuple(mask),
        **{name: given[name] for name in alike},
    )


def read_given(inputs: Any, choices: Choices, weights: Any = None) -> Reading:
    """What `run` takes, understood."""
    if isinstance(inputs, AttentionInputs):
        if weights is not None:
            raise InputError(
                "AttentionInputs have their q, k and v already: weights was given",
                hint="give token vectors, or AttentionInputs with an origin",
            )
        return reading_of(inputs, choices)
    dump = _dump(inputs)
    if is_model(dump):
        raise InputError(
            f"{dump.source} holds a model, which needs a text",
            hint=f"attn_cli.run_model({dump.source!r}, text)",
        )
    layer = None if weights is None else _dump(weights)
    return understand(dump, choices, weights=layer, load=load_array)


def _dump(given: Any) -> Dump:
    """A file's content, or arrays as a file would give them."""
    return formats.read(fspath(given)) if isinstance(given, (str, PathLike)) else dump_from(given)


def reading_of(inputs: AttentionInputs, choices: Choices) -> Reading:
    """AttentionInputs as they are, with a mask, scale or softcap put over them."""
    unused = [
        field.name
        for field in dataclasses.fields(choices)
        if field.name not in ("masks", "scale", "softcap", "align") and getattr(choices, field.name)
    ]
    if unused:
        raise InputError(
            "AttentionInputs have their heads, projections and masks already: "
            f"{unused[0]} was given",
            hint="give arrays by name instead, or AttentionInputs without it",
        )
    if choices.align is not None:
        _, _, queries, keys = inputs.shape
        offset = keys - queries if choices.align == "lower-right" else 0
        inputs = dataclasses.replace(inputs, q_offset=offset)
    expression = conjunction([parse(text) for text in choices.masks]) if choices.masks else None
    if expression is not None:
        mask = expression.build(_mask_context(inputs, choices.align))
        both = mask if inputs.mask is None else And((inputs.mask, mask))
        inputs = dataclasses.replace(inputs, mask=both)
    if choices.scale is not None:
        scale = 1.0 if choices.scale == "none" else choices.scale
        inputs = dataclasses.replace(inputs, scale=scale)
    if choices.softcap is not None:
        inputs = dataclasses.replace(inputs, softcap=choices.softcap)
    text = None if expression is None else str(expression)
    return Reading(inputs, _summary(inputs), _settings(inputs, text, choices.align))


def _mask_context(inputs: AttentionInputs, align: Align | None) -> MaskContext:
    """Offset 0 is the default: with L ≠ S it says nothing of how the positions line up."""
    batch, heads, queries, keys = inputs.shape
    said = align is not None or bool(inputs.q_offset)
    return MaskContext(
        batch=batch,
        heads=heads,
        queries=queries,
        keys=keys,
        q_offset=inputs.q_offset or 0,
        aligned=said or queries == keys,
        load=load_array,
    )


def _summary(inputs: AttentionInputs) -> InputSummary:
    batch, _, queries, keys = inputs.shape
    return InputSummary(
        source="memory",
        format="memory",
        kind="q, k, v" if inputs.x is None else "token vectors",
        batch=batch,
        queries=queries,
        keys=keys,
        d_model=None if inputs.x is None else inputs.x.shape[-1],
        d_k=inputs.q.shape[-1],
        d_v=inputs.v.shape[-1],
        precision=np.result_type(inputs.q, inputs.k, inputs.v).name,
        sha256=None,
        tokens=inputs.labels is not None,
    )


def _settings(inputs: AttentionInputs, mask: str | None, align: Align | None) -> Settings:
    return Settings(
        heads=inputs.shape[1],
        kv_heads=inputs.kv_heads,
        scale=inputs.effective_scale,
        softcap=inputs.softcap,
        mask=mask,
        align=align,
        layout="bhld",
    )
