"""ModelConfig: what a model's file says of its layers, checked key by key."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from attn_cli.core.layer import working_head_counts
from attn_cli.core.registry import unknown_name
from attn_cli.core.settings import Scale
from attn_cli.errors import InputError, MisfitError
from attn_cli.formats.names import quoted
from attn_cli.masks.expression import parse
from attn_cli.positions import POSITIONS
from attn_cli.positions.declaration import MAX_DISTANCE, ROPE_BASE

Norm = Literal["none", "pre", "post"]

LARGEST = 1 << 20  # of any size: what is larger is a slip, and no file holds it
REQUIRED = ("layers", "heads", "d_model")


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The sizes and settings that all layers share.

    `mask` is an expression such as "causal", None for no mask. `norm` says where LayerNorm stands:
    before attention, "pre", or after what it adds, "post". `residual`: a layer adds its output to
    what entered it. `positions` is a scheme as --positions writes it, and the three after it what
    schemes read. `scale` None means 1/√d_k.
    """

    layers: int
    heads: int
    d_model: int
    kv_heads: int
    d_k: int
    d_v: int
    mask: str | None = None
    positions: str = "none"
    rope_base: float = ROPE_BASE
    relative_bidirectional: bool = True
    max_distance: int = MAX_DISTANCE
    residual: bool = True
    norm: Norm = "none"
    norm_eps: float = 1e-5
    scale: Scale | None = None
    softcap: float | None = None


def parse_config(text: str) -> ModelConfig:
    """The config of a file's metadata, a JSON object.

    `layers`, `heads` and `d_model` must be there; kv_heads is heads, d_k d_model / heads and d_v
    d_k unless they are. InputError names the key that is missing, unknown or out of range.
    """
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError("the model's config is not valid JSON") from error
    if not isinstance(said, dict):
        raise InputError("the model's config is JSON but no object")
    for name in said:
        if name not in CHECKS:
            raise unknown_name("config key", name, tuple(CHECKS))
    given = {name: value for name, value in said.items() if value is not None}
    for name, value in given.items():
        fits, expected = CHECKS[name]
        if not fits(value):
            came = quoted(value) if isinstance(value, str) else quoted(str(value))[1:-1]
            raise InputError(f"the model's config has {name} {came}: expected {expected}")
    return _complete(given)


def _complete(given: Mapping[str, Any]) -> ModelConfig:
    """The config with the sizes that follow from others."""
    if missing := [name for name in REQUIRED if name not in given]:
        raise InputError(
            f"the model's config lacks {' and '.join(missing)}",
            hint=f"it needs {', '.join(REQUIRED)}; the rest has defaults",
        )
    heads, d_model = given["heads"], given["d_model"]
    kv_heads = given.get("kv_heads", heads)
    if heads % kv_heads:
        raise MisfitError(
            f"the model's config has {heads} heads on {kv_heads} kv_heads: the query heads must be "
            "a multiple of the key/value heads"
        )
    if "d_k" not in given and d_model % heads:
        counts = ", ".join(map(str, working_head_counts(d_model)))
        raise MisfitError(
            f"the model's config splits d_model {d_model} into {heads} heads of equal width",
            hint=f"give d_k, or one of {counts} heads",
        )
    if "mask" in given:
        parse(given["mask"])
    d_k = given.get("d_k", d_model // heads)
    return ModelConfig(**{"kv_heads": kv_heads, "d_k": d_k, "d_v": d_k, **given})


def _is_size(value: Any) -> bool:
    return type(value) is int and 1 <= value <= LARGEST


def _is_number(value: Any) -> bool:
    try:
        return type(value) in (int, float) and math.isfinite(value)
    except OverflowError:
        return False


def _is_positive(value: Any) -> bool:
    return _is_number(value) and bool(value > 0)


_SIZE = (_is_size, f"a whole number from 1 to {LARGEST:,}")
_POSITIVE = (_is_positive, "a positive number")
_TRUTH = (lambda value: isinstance(value, bool), "true or false")


def _one_of(names: tuple[str, ...]) -> tuple[Callable[[Any], bool], str]:
    return lambda value: isinstance(value, str) and value in names, " or ".join(names)


CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "layers": _SIZE,
    "heads": _SIZE,
    "d_model": _SIZE,
    "kv_heads": _SIZE,
    "d_k": _SIZE,
    "d_v": _SIZE,
    "mask": (lambda value: isinstance(value, str), "a mask expression such as 'causal'"),
    "positions": _one_of(tuple(name for each in POSITIONS for name in POSITIONS[each].spellings)),
    "rope_base": _POSITIVE,
    "relative_bidirectional": _TRUTH,
    "max_distance": _SIZE,
    "residual": _TRUTH,
    "norm": _one_of(get_args(Norm)),
    "norm_eps": _POSITIVE,
    "scale": (lambda value: value == "none" or _is_number(value), "a number, or none for 1"),
    "softcap": _POSITIVE,
}
