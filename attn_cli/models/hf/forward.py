"""The forward of a model as it is: no gradients, seeded, its outputs by name."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from attn_cli.errors import AttnError, InputError
from attn_cli.models.hf.inputs import ModelInputs
from attn_cli.models.hf.loaded import LoadedModel

SEED = 0
_OF_MODELS = (ValueError, TypeError, LookupError, AttributeError, AssertionError, RuntimeError)
_BETWEEN = ("run_raw", "_interface", "__torch_function__")  # attn calls the model's code from here
CACHES = ("cache", "past_key_values", "encoder_last_hidden_state")


def forward(loaded: LoadedModel, inputs: ModelInputs, **extra: Any) -> dict[str, Tensor]:
    """The outputs of the untouched model, by name; a cache is left out."""
    return outputs_of(run_raw(loaded, inputs, **extra))


def run_raw(loaded: LoadedModel, inputs: ModelInputs, **extra: Any) -> Any:
    """What the model returns. Random choices that it makes start from one seed every time.

    InputError where the model refuses what it is given.
    """
    given = {**_quiet(loaded), **inputs.tensors, **extra}
    with torch.no_grad(), _seeded(loaded.device):
        try:
            return loaded.model(**given)
        except AttnError:
            raise
        except _OF_MODELS as error:
            if _is_ours(error):
                raise
            said = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(
                f"{loaded.architecture} does not take this input: {said}",
                hint="does the input fit the model? ATTN_DEBUG=1 shows where it stopped",
            ) from error


def _is_ours(error: BaseException) -> bool:
    """Whether attn's own code failed while the model called it, and not the model's."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    ours = [f for f in frames if str(f.f_globals.get("__name__")).startswith("attn_cli.")]
    return any(frame.f_code.co_name not in _BETWEEN for frame in ours)


def outputs_of(raw: Any) -> dict[str, Tensor]:
    """The tensors of a model's output by name; tuples of them get numbers, "hidden_states.0"."""
    return dict(_flat("", raw))


def _flat(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            if key not in CACHES:
                yield from _flat(f"{name}.{key}".strip("."), each)
    elif isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            yield from _flat(f"{name}.{index}".strip("."), each)


def _quiet(loaded: LoadedModel) -> dict[str, Any]:
    """A cache is not made where the model would make one unasked."""
    return {"use_cache": False} if loaded.takes("use_cache") else {}


@contextmanager
def _seeded(device: torch.device) -> Iterator[None]:
    """torch's own random numbers start at SEED and are put back afterwards."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(SEED)
        yield
