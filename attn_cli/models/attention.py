"""One layer's attention as AttentionInputs: the question that an engine answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs, Labels
from attn_cli.core.layer import Origin, project
from attn_cli.core.masks import Mask, MaskContext
from attn_cli.masks.expression import MaskExpression, parse
from attn_cli.models.config import ModelConfig
from attn_cli.models.stream import QUIET, ingredients
from attn_cli.models.toy import Model

Array = NDArray[Any]
Load = Callable[[str], Array]


@QUIET
def layer_inputs(
    model: Model, number: int, x: Array, tokens: tuple[str, ...], *, load: Load | None = None
) -> AttentionInputs:
    """What layer `number` computes from x (1, L, d_model), the vectors of `tokens`.

    Its origin holds the layer's projections, so an engine makes q, k and v again by its own code.
    `load` reads the arrays that a mask expression names. InputError where the mask or the
    positions do not fit.
    """
    config, given = model.config, ingredients(model)
    origin = Origin(
        x=x,
        heads=config.heads,
        kv_heads=config.kv_heads,
        projections=model.layers[number].projections,
    )
    q, k, v = (part[None] for part in project(origin, 0, show=_unseen, cast=_as_it_is))
    scheme = model.scheme
    return AttentionInputs(
        q=q,
        k=k,
        v=v,
        mask=_mask(config, len(tokens), load),
        scale=1.0 if config.scale == "none" else config.scale,
        softcap=config.softcap,
        labels=Labels((tokens,), (tokens,)),
        x=x,
        rotation=None if scheme.rotate is None else scheme.rotate(given),
        position_bias=None if scheme.bias is None else scheme.bias(given),
        origin=origin,
    )


def mask_expression(config: ModelConfig) -> MaskExpression | None:
    """The config's mask, parsed; None where it has none or it is `none`."""
    expression = None if config.mask is None else parse(config.mask)
    return None if str(expression) == "none" else expression


def _mask(config: ModelConfig, length: int, load: Load | None) -> Mask | None:
    expression = mask_expression(config)
    if expression is None:
        return None
    return expression.build(MaskContext(1, config.heads, length, length, load=load))


def _unseen(stage: str, array: Array) -> Array:
    return array


def _as_it_is(array: Array) -> Array:
    return array
