"""Checkpoints as transformers writes them, with random weights, each built once."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.unit.models.checkpoint.tiny_text import TEXT, VARIANTS
from tests.unit.models.checkpoint.tiny_towers import TOWERS

CONFIGS = {**TEXT, **VARIANTS, **TOWERS}


@dataclass(frozen=True)
class Built:
    """A model of transformers, and the folder that it was saved to."""

    name: str
    model: Any
    folder: Path


class Builder:
    """Builds the model of a configuration when it is first asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.built: dict[str, Built] = {}

    def __call__(self, name: str) -> Built:
        if name not in self.built:
            self.built[name] = _build(name, self.root / name.replace(":", "-"))
        return self.built[name]


def _build(name: str, folder: Path) -> Built:
    """The model, on attention that can show its weights, and saved."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what transformers finds odd in tiny configurations
        model = _model(name.partition(":")[0], CONFIGS[name])
        model.save_pretrained(folder)
    return Built(name, model, folder)


def _model(model_type: str, given: dict[str, Any]) -> Any:
    torch, transformers = _quiet()
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(model_type, **given)
    config._attn_implementation = "eager"
    decoders = transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING
    decoder = type(config) in decoders and not config.is_encoder_decoder
    whole = transformers.AutoModelForCausalLM if decoder else transformers.AutoModel
    return whole.from_config(config).eval()


def _quiet() -> tuple[Any, Any]:
    """torch and transformers, imported when first used; the latter says nothing of its own."""
    torch, transformers = import_module("torch"), import_module("transformers")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return torch, transformers
