"""Shapes of a model that attn runs: its layers from its config, its arrays from their headers."""

from __future__ import annotations

from attn_cli.core.dump import Dump
from attn_cli.core.geometry import Geometry, LayerGeometry
from attn_cli.core.problems import Problem
from attn_cli.core.results_shapes import ShapesResult
from attn_cli.errors import MisfitError
from attn_cli.models.config import ModelConfig
from attn_cli.models.toy import Layer, Model, model_from, scheme_of
from attn_cli.recognize.settings import as_factor
from attn_cli.workflows.check.shapes_options import ShapesOptions
from attn_cli.workflows.check.shapes_pairs import in_full
from attn_cli.workflows.check.shapes_stack import Looked, Stack, look_at

COVERAGE = "headers only: every array was compared with the config, and no number was read"


def of_model(dump: Dump, asked: ShapesOptions) -> ShapesResult:
    """The trace of a model's layers; an array that does not fit its config is a problem.

    InputError for a config or a vocabulary that cannot be read.
    """
    asked.refuse_idle("a model", dump.source)
    try:
        model = model_from(dump)
    except MisfitError as error:
        problem = Problem("does-not-fit", in_full(error), file=dump.source)
        return _result(dump, (), Looked((), (problem,)))
    layers = tuple(
        LayerGeometry(
            path=f"layers.{place}",
            index=place,
            kind="softmax",
            says="attention",
            geometry=_geometry(model.config, layer),
        )
        for place, layer in enumerate(model.layers)
    )
    return _result(dump, layers, look_at(_stack(dump, model, layers), asked))


def _stack(dump: Dump, model: Model, layers: tuple[LayerGeometry, ...]) -> Stack:
    table = model.tables.get("positions")
    return Stack(
        layers=layers,
        dtype=dump.dtypes["layers.0.w_q"],
        longest=None if table is None else len(table),
        masks=(model.config.mask,) if model.config.mask else (),
    )


def _geometry(config: ModelConfig, layer: Layer) -> Geometry:
    weights = layer.projections
    biases = [name for name in "qkvo" if getattr(weights, f"b_{name}") is not None]
    scheme = scheme_of(config)
    return Geometry(
        heads=config.heads,
        kv_heads=config.kv_heads,
        d_k=config.d_k,
        d_v=config.d_v,
        d_model=config.d_model,
        d_out=config.d_model,
        projected=True,
        biases=frozenset(biases),
        causal=config.mask is not None and "causal" in config.mask,
        scale=as_factor(config.scale),
        softcap=config.softcap,
        positions=config.positions if scheme.acts in ("rotates", "bias") else None,
    )


def _result(dump: Dump, layers: tuple[LayerGeometry, ...], looked: Looked) -> ShapesResult:
    return ShapesResult(
        kind="model",
        source=dump.source,
        says=(),
        layers=layers,
        groups=looked.groups,
        problems=looked.problems,
        coverage=COVERAGE,
    )
