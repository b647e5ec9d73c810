"""Arguments of an attention function: which of them change numbers, and which came along."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from torch import Tensor, nn

from attn_cli.errors import UnsupportedError
from attn_cli.formats.names import listed

GIVEN = ("module", "query", "key", "value", "attention_mask")
# What the staged formula knows. Dropout does nothing in a model that is not being trained, and
# masks have been narrowed to the chosen keys already where `indices` come along.
KNOWN = frozenset(
    (*GIVEN, "scaling", "dropout", "softcap", "position_bias", "s_aux", "sinks", "is_causal")
)
HARMLESS = frozenset(("sliding_window", "indices", "block_indices", "output_attentions"))


@dataclass(frozen=True, slots=True, eq=False)
class Arguments:
    """What one call was given beside q, k, v and the mask, as its function reads it.

    `along` are the names of arguments that were given and that the function does not read.
    """

    scaling: float
    softcap: float | None
    sinks: Tensor | None
    position_bias: Tensor | None
    causal: bool
    window: int | None
    along: tuple[str, ...]


def read_arguments(
    module: nn.Module,
    query: Tensor,
    mask: Tensor | None,
    given: Mapping[str, Any],
    *,
    function: Callable[..., Any],
    backend: str,
) -> Arguments:
    """The arguments that count. UnsupportedError names those that the formula does not know.

    A function's own parameters are what it computes with; what falls into its **kwargs is along
    for others. PyTorch's kernel takes is_causal into account, and an eager function never.
    """
    there = {name: value for name, value in given.items() if value is not None}
    reads = _parameters(function)
    unknown = [name for name in there if name in reads and name not in KNOWN | HARMLESS]
    if unknown:
        raise UnsupportedError(
            f"{type(module).__name__} is given {listed(unknown)}, which changes its attention in a "
            "way that attn does not know",
        )
    if module.training and there.get("dropout"):
        raise UnsupportedError(f"{type(module).__name__} is in training and drops weights")
    scaling = there.get("scaling")
    width: int = query.shape[-1]
    window = there.get("sliding_window")
    return Arguments(
        scaling=width**-0.5 if scaling is None else float(scaling),
        softcap=there.get("softcap") if "softcap" in reads else None,
        sinks=_sinks(there, backend),
        position_bias=there.get("position_bias") if "position_bias" in reads else None,
        causal=backend == "sdpa" and _is_causal(module, query, mask, there),
        window=window if type(window) is int else None,
        along=tuple(sorted(name for name in there if name not in KNOWN)),
    )


def _is_causal(
    module: nn.Module, query: Tensor, mask: Tensor | None, given: Mapping[str, Any]
) -> bool:
    """Whether the kernel hides k > q: more than one query, no mask, and the layer is causal."""
    said = given.get("is_causal")
    causal = getattr(module, "is_causal", True) if said is None else said
    return query.shape[2] > 1 and mask is None and bool(causal)


def _sinks(given: Mapping[str, Any], backend: str) -> Tensor | None:
    """Extra logits, to broadcast to (B, H, L, 1); PyTorch's kernel has none."""
    sinks = given.get("s_aux", given.get("sinks"))
    if backend == "sdpa" or not isinstance(sinks, Tensor):
        return None
    sinks = sinks.detach()  # a parameter, which would make what is computed of it ask for gradients
    return sinks.reshape(1, -1, 1, 1) if sinks.ndim == 1 else sinks


@lru_cache(maxsize=256)
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    """The names of a function's own parameters, without *args and **kwargs."""
    return frozenset(
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    )
