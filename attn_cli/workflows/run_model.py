"""run_model: a text through a model, layer by layer, and what the model expects next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from attn_cli.core.dump import Dump
from attn_cli.core.engine import Progress
from attn_cli.core.findings import Finding
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.model_results import ModelResult, ModelSummary
from attn_cli.core.results import RunResult
from attn_cli.core.settings import Choices
from attn_cli.core.trace import ALL_STAGES
from attn_cli.errors import InputError
from attn_cli.models.passage import passages
from attn_cli.models.toy import Model
from attn_cli.recognize.one_array import load_array
from attn_cli.workflows.layers import in_model
from attn_cli.workflows.model_reading import read_model
from attn_cli.workflows.one_kind import refuse_files
from attn_cli.workflows.predictions import predictions, said_of_logits
from attn_cli.workflows.run import RunOptions, run_reading
from attn_cli.workflows.selection import checked

Array = NDArray[Any]


def run_model(dump: Dump, options: RunOptions, *, progress: Progress | None = None) -> ModelResult:
    """Run the model that `dump` holds on `options.text` and say all that was asked for.

    Raises InputError for a model or a text that cannot be read, and for options that leave a model
    no room.
    """
    reading = read_model(dump, options.choices, options.text)
    model, words, layers = reading.model, reading.words, reading.model.config.layers
    shown = checked("layer", "--layer", options.layers_shown, layers)
    _check_options(options, shown)

    def attend(number: int, inputs: AttentionInputs) -> RunResult:
        if progress is not None:
            progress(number, layers)
        mine = _layer_options(options, shown=number in shown)
        return run_reading(reading.layer(inputs), mine, keep=frozenset({"output"}))

    results: dict[int, RunResult] = {}
    elsewhere: list[Finding] = []
    for passage, attended in passages(
        model, words, dtype=options.dtype, attend=attend, output=_output, load=load_array
    ):
        placed = in_model(attended, passage, options.values)
        placed = replace(placed, settings=reading.settings)
        if passage.number in shown:
            results[passage.number] = placed
        else:
            elsewhere += placed.findings
    _check_values(options, results)
    queries = next(iter(results.values())).chosen["query"]
    return ModelResult(
        model=_summary(model),
        layers=results,
        said=(*reading.findings, *said_of_logits(passage)),
        elsewhere=tuple(elsewhere),
        predictions=predictions(passage, words.tokens, model, queries),
    )


def _output(result: RunResult) -> Array:
    return result.trace["output"]


def _layer_options(options: RunOptions, *, shown: bool) -> RunOptions:
    """What is asked of one layer: nothing is drawn or saved of one that is not shown."""
    stages = tuple(name for name in options.values if name in ALL_STAGES)
    mine = replace(options, choices=Choices(), values=stages if shown else ())
    return mine if shown else replace(mine, parts=frozenset(), save=None)


def _check_options(options: RunOptions, shown: tuple[int, ...]) -> None:
    refuse_files(context=options.context, weights=options.weights)
    if options.save is None:
        return
    if len(shown) > 1:
        raise InputError(
            f"--save holds the trace of one layer, and {len(shown)} are chosen",
            hint=f"choose one: --layer {shown[-1]}",
        )
    from attn_cli.workflows.saving import check_destination

    check_destination(options.save, force=options.force)


def _check_values(options: RunOptions, results: Mapping[int, RunResult]) -> None:
    """InputError for a stage that none of the shown layers has."""
    for name in options.values:
        if not any(name in result.values for result in results.values()):
            has = next(iter(results.values())).trace.shapes
            raise InputError(
                f"no layer that is shown has a stage {name!r}",
                hint=f"layer {has[0].layer} has {', '.join(step.stage for step in has)}",
            )


def _summary(model: Model) -> ModelSummary:
    config = model.config
    return ModelSummary(
        layers=config.layers,
        vocabulary=len(model.vocabulary),
        positions=config.positions,
        norm=config.norm,
        residual=config.residual,
    )
