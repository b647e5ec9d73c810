"""Facts of a call: where it is in the model, what kind of layer it is, and what its mask is."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from attn_cli.core.model_calls import CallPlace, MaskFacts
from attn_cli.models.hf.call import FILL
from attn_cli.models.hf.seen_tensors import SeenTensors

_NUMBER = re.compile(r"^(?P<stack>.*?)\.?(?P<list>[^.\d][^.]*)\.(?P<number>\d+)(?:\.|$)")
_CROSS = re.compile(r"cross|encoder_attn|enc_?dec|multihead_attn", re.IGNORECASE)


@dataclass(slots=True)
class Layers:
    """Numbers the layers of every stack as their calls come in."""

    seen: Counter[str] = field(default_factory=Counter)

    def of(self, place: CallPlace) -> tuple[str, int]:
        """The stack and the layer of a call.

        The number in the path; where layers share the modules of a group, which run again and
        again, their order.
        """
        stack, name, number = in_stack(place.path)
        if "group" not in name:
            return stack, number
        self.seen[stack] += place.piece == 0
        return stack, self.seen[stack] - 1


def in_stack(path: str) -> tuple[str, str, int]:
    """The path before a layer's list, the list's name, the number: "model", "layers", 3."""
    found = _NUMBER.match(path)
    if found is None:
        return path.rpartition(".")[0], "", 0
    return found["stack"], found["list"], int(found["number"])


def is_cross(module: nn.Module | None, path: str) -> bool:
    """Whether keys come from another sequence, by the module's own word or its name."""
    said = getattr(module, "is_cross_attention", None)
    if isinstance(said, bool):
        return said
    return bool(_CROSS.search(path.rpartition(".")[2]) or _CROSS.search(type(module).__name__))


def layer_type(module: nn.Module | None) -> str | None:
    """The configuration's word for a layer, such as sliding_attention; None where it has none."""
    for name in ("layer_type", "attention_type"):
        if isinstance(word := getattr(module, name, None), str):
            return word
    number = getattr(module, "layer_idx", None)
    words: Any = getattr(getattr(module, "config", None), "layer_types", None)
    if isinstance(words, (list, tuple)) and type(number) is int and number < len(words):
        return str(words[number])
    return None


@dataclass(slots=True)
class Masks:
    """The facts of masks; layers share them, so each tensor is looked at once."""

    seen: SeenTensors[MaskFacts] = field(default_factory=SeenTensors)

    def of(self, mask: Tensor | None) -> MaskFacts | None:
        return None if mask is None else self.seen.of(mask, _mask_facts)


def _mask_facts(mask: Tensor) -> MaskFacts:
    boolean = mask.dtype == torch.bool
    hides = ~mask if boolean else mask <= FILL
    return MaskFacts(
        kind="bool" if boolean else "additive",
        shape=tuple(mask.shape),
        dtype=str(mask.dtype).removeprefix("torch."),
        fill=None if boolean else float(mask.min()),
        hidden=float(hides.float().mean()),
    )
