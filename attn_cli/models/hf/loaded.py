"""LoadedModel: a model in memory, and what is known of it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from attn_cli.core.findings import Finding
from attn_cli.models.hf.tokens import Tokenizer

Kind = Literal["decoder", "encoder", "encoder-decoder", "vision", "image-text", "speech"]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LoadedModel:
    """A model of transformers in evaluation mode.

    `source` is the folder or name that was given, `folder` where its files lie, `kind` what it
    takes, `positions` the longest text, None where there is no limit. `backend` is the attention
    that transformers chose: "sdpa" or "eager". `trust_remote_code` holds for its processor, too.
    `notes` say what was decided while loading.
    """

    model: Any
    config: Any
    source: str
    folder: Path
    architecture: str
    kind: Kind
    tokenizer: Tokenizer | None
    device: torch.device
    dtype: str
    backend: str
    positions: int | None
    random: bool
    trust_remote_code: bool = False
    notes: tuple[Finding, ...] = ()

    def takes(self, name: str) -> bool:
        """Whether the model's forward has a parameter of this name."""
        return name in inspect.signature(self.model.forward).parameters

    @property
    def text_config(self) -> Any:
        """The configuration of the part that reads text; the whole where there are no parts."""
        return self.config.get_text_config()
