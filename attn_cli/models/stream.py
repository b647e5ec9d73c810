"""The stream: what runs through a model between its attention layers, step by step.

The same code for every engine: rows of the embedding, positions, LayerNorm, the residual sum and
the unembedding. Attention itself is what engines compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.rounding import accumulator, round_to
from attn_cli.models.norm import layer_norm
from attn_cli.models.toy import Model, Unembedding
from attn_cli.positions.declaration import Ingredients

Array = NDArray[Any]

# NaN and inf pass through, and the checks of a run report them; numpy need not warn as well.
QUIET = np.errstate(all="ignore")


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step outside attention: its stage, its formula, and its values (1, L, width)."""

    stage: str
    formula: str
    array: Array


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Rounds every step to a run's precision; sums are kept as wide as the engines keep them."""

    dtype: str

    def __call__(self, array: Array) -> Array:
        wide = accumulator(self.dtype)
        rounded: Array = round_to(np.asarray(array, wide), self.dtype).astype(wide, copy=False)
        return rounded


def embed(model: Model, ids: Sequence[int], exact: Arithmetic) -> Step:
    """The rows of the embedding at the ids: (1, L, d_model)."""
    return Step("embedded", "rows of the embedding", exact(model.embedding[list(ids)][None]))


@QUIET
def enter(model: Model, number: int, before: Step, exact: Arithmetic) -> tuple[Step, ...]:
    """The steps from what comes into a layer to x, its attention's input, which is the last one."""
    config = model.config
    first = number == 0
    steps = [before] if first else []
    value = before.array
    how = f"= {before.stage}" if first else f"{before.stage} of layer {number - 1}"
    if first and model.scheme.encode is not None:
        value = exact(value + exact(_encoding(model, value.shape[1])))
        how = f"{before.stage} + {model.scheme.name} positions"
    if config.norm != "pre":
        return (*steps, Step("x", how, value))
    normed = exact(layer_norm(value, model.layers[number].norm, eps=config.norm_eps))
    return (*steps, Step("stream", how, value), Step("x", "LayerNorm(stream)", normed))


@QUIET
def leave(
    model: Model, number: int, entered: Sequence[Step], output: Array, exact: Arithmetic
) -> tuple[Step, ...]:
    """The steps from a layer's output, which is the first one, to what goes on, which is the last.

    `entered` are the steps that `enter` gave.
    """
    config = model.config
    steps = [Step("output", "", exact(output))]
    if config.residual:
        kept = "stream" if config.norm == "pre" else "x"
        (into,) = (step for step in entered if step.stage == kept)
        steps.append(Step("residual", f"{kept} + output", exact(into.array + steps[-1].array)))
    if config.norm == "post":
        last = steps[-1]
        normed = layer_norm(last.array, model.layers[number].norm, eps=config.norm_eps)
        steps.append(Step("normed", f"LayerNorm({last.stage})", exact(normed)))
    return tuple(steps)


@QUIET
def predict(model: Model, last: Step, exact: Arithmetic) -> tuple[Step, ...]:
    """The steps behind the last layer: LayerNorm and the logits, as far as the model has them."""
    steps = []
    if model.final_norm is not None:
        normed = layer_norm(last.array, model.final_norm, eps=model.config.norm_eps)
        last = Step("final", f"LayerNorm({last.stage})", exact(normed))
        steps.append(last)
    if (end := model.unembedding) is not None:
        bias = "" if end.bias is None else " + bias"
        how = f"{last.stage} · unembeddingᵀ{bias}"
        steps.append(Step("logits", how, exact(_logits(last.array, end, exact))))
    return tuple(steps)


def _logits(x: Array, end: Unembedding, exact: Arithmetic) -> Array:
    """(1, L, d_model) → (1, L, vocabulary)."""
    logits = x @ exact(end.weight).T
    return logits if end.bias is None else logits + exact(end.bias)


def _encoding(model: Model, length: int) -> Array:
    """What is added to the vectors of the first `length` positions: (L, d_model)."""
    assert model.scheme.encode is not None
    return model.scheme.encode(ingredients(model), range(length), model.config.d_model)


def ingredients(model: Model) -> Ingredients:
    """What the model's position scheme is made from."""
    config, table = model.config, model.scheme.table
    return Ingredients(
        heads=config.heads,
        variant=config.positions.partition(":")[2],
        rope_base=config.rope_base,
        table=None if table is None else model.tables[table],
        bidirectional=config.relative_bidirectional,
        max_distance=config.max_distance,
    )
