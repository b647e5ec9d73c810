"""The sample model in memory, and models that misbehave in a way that is known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from attn_cli.models.hf.inputs import ModelInputs, inputs_of_ids
from attn_cli.models.hf.loaded import LoadedModel
from attn_cli.models.hf.loading import load
from attn_cli.models.hf.options import InputOptions, LoadOptions
from attn_cli.workflows.model.options import ModelOptions
from attn_cli.workflows.model.report import Watched, watch

FOLDER = Path(__file__).parents[4] / "sample_inputs" / "tiny_gemma2"
IDS = (7, 21, 33, 7, 60, 81, 4, 90, 12)


def options(**more: Any) -> ModelOptions:
    """A look into the sample with drawn weights, at IDS where nothing else is given."""
    loading = LoadOptions(source=str(FOLDER), random_weights=True)
    given = more.pop("given", InputOptions(input_ids=(IDS,)))
    return ModelOptions(load=more.pop("load", loading), given=given, **more)


def tiny() -> LoadedModel:
    """The sample with drawn weights."""
    return load(options().load)


def watched(loaded: LoadedModel, *rows: tuple[int, ...], **more: Any) -> Watched:
    """The model run on ids with what a report needs kept."""
    inputs: ModelInputs = inputs_of_ids(loaded, rows or (IDS,))
    return watch(loaded, inputs, options(**more))


@contextmanager
def leaking(loaded: LoadedModel, layer: int) -> Iterator[None]:
    """What comes into a layer's attention has a part of the last token in every row."""

    def leak(_: Any, arguments: Any, named: dict[str, Any]) -> Any:
        hidden: torch.Tensor = named["hidden_states"]
        return arguments, {**named, "hidden_states": hidden + 0.1 * hidden[:, -1:]}

    attention = loaded.model.model.layers[layer].self_attn
    handle = attention.register_forward_pre_hook(leak, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()
