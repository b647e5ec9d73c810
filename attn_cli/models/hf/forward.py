"""The forward of a model as it is: no gradients, seeded, its outputs by name."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from attn_cli.errors import AttnError, InputError
from attn_cli.models.hf.devices import is_spread
from attn_cli.models.hf.inputs import ModelInputs
from attn_cli.models.hf.loaded import LoadedModel
from attn_cli.models.hf.loading_errors import first_line
from attn_cli.torch_arrays import ran_out

SEED = 0
_BETWEEN = ("asked", "_interface")  # attn calls the model's code from here
_THROUGH = "attn_cli.models.hf.function_mode"  # whose torch functions are whoever calls them's
CACHES = ("cache", "past_key_values", "encoder_last_hidden_state")


def forward(loaded: LoadedModel, inputs: ModelInputs, **extra: Any) -> dict[str, Tensor]:
    """The outputs of the untouched model, by name; a cache is left out."""
    return outputs_of(run_raw(loaded, inputs, **extra))


def run_raw(loaded: LoadedModel, inputs: ModelInputs, **extra: Any) -> Any:
    """What the model returns. Random choices that it makes start from one seed every time.

    InputError where the model refuses what it is given, or memory runs out.
    """
    given = {**_quiet(loaded), **inputs.tensors, **extra}
    with _seeded(loaded.model):
        return asked(loaded, loaded.model, **given)


def asked(loaded: LoadedModel, ask: Callable[..., Any], **given: Any) -> Any:
    """What the model, or a function of it, returns; what it raises is InputError.

    What fails in attn's own code, which looks on, is raised as it is.
    """
    try:
        with torch.no_grad():
            return ask(**given)
    except AttnError:
        raise
    except (Exception, SystemExit) as error:  # a model's own code may raise anything
        if ran_out(error):
            raise InputError(
                f"memory runs out while {loaded.architecture} runs",
                hint="a shorter input, or fewer texts; --dtype bfloat16 halves float32",
            ) from error
        if _is_ours(error):
            raise
        raise InputError(*_said(loaded, error)) from error


def _said(loaded: LoadedModel, error: BaseException) -> tuple[str, str]:
    """What stopped a model, and the next step."""
    said = first_line(error)
    if "meta" in said and is_spread(loaded.model):
        name, why = loaded.architecture, "it takes those of a part that it does not run"
        return (
            f"{name} does not run with weights on the disk: {why}",
            "it needs memory for all its weights; --dtype bfloat16 halves float32",
        )
    return (
        f"{loaded.architecture} does not take this input: {said}",
        "does the input fit the model? ATTN_DEBUG=1 shows where it stopped",
    )


def _is_ours(error: BaseException) -> bool:
    """Whether it is attn's own code that failed, or what it calls, and not the model's."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    names = [(str(f.f_globals.get("__name__")), f.f_code.co_name) for f in frames]
    own = [name for module, name in names if module.startswith("attn_cli.") and module != _THROUGH]
    return own[-1] not in _BETWEEN


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
def _seeded(model: nn.Module) -> Iterator[None]:
    """torch's own random numbers start at SEED and are put back afterwards, on every device."""
    devices = list({p.device for p in model.parameters() if p.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(SEED)
        yield
