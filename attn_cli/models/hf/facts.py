"""Facts of a call: where it is in the model, and what kind of layer it is."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from attn_cli.core.model_calls import CallPlace

_NUMBER = re.compile(r"^(?P<stack>.*?)\.?(?P<list>[^.\d][^.]*)\.(?P<number>\d+)(?:\.|$)")
# Layers in stages: "encoder.layers.0.blocks.1" (Swin), "stages.2.layers.0", "block.0.1".
_STAGED = re.compile(
    r"^(?P<stack>.*?)\.?(?P<list>stages?\.\d+\.[^.]+|[^.\d][^.]*\.\d+\.blocks|[^.\d][^.]*\.\d+)"
    r"\.(?P<number>\d+)(?:\.|$)"
)
_CROSS = re.compile(r"cross|encoder_attn|enc_?dec|multihead_attn", re.IGNORECASE)


@dataclass(slots=True)
class Layers:
    """Numbers the layers of every stack as their calls come in."""

    seen: Counter[str] = field(default_factory=Counter)
    staged: dict[str, dict[str, int]] = field(default_factory=dict)

    def of(self, place: CallPlace) -> tuple[str, int]:
        """The stack and the layer of a call.

        The number in the path; where layers come in stages, or share the modules of a group, which
        run again and again, their order.
        """
        stack, name, number = in_stack(place.path)
        if "." in name:
            numbers = self.staged.setdefault(stack, {})
            return stack, numbers.setdefault(f"{name}.{number}", len(numbers))
        if "group" not in name:
            return stack, number
        self.seen[stack] += place.piece == 0
        return stack, self.seen[stack] - 1


def in_stack(path: str) -> tuple[str, str, int]:
    """The path before a layer's list, the list's name, the number: "model", "layers", 3.

    Of a list within a stage the name has both: "encoder", "layers.0.blocks", 1.
    """
    found = _STAGED.match(path) or _NUMBER.match(path)
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
