"""Passages: a text on its way through a model, one attention layer after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs
from attn_cli.models.attention import Load, layer_inputs
from attn_cli.models.stream import Arithmetic, Step, embed, enter, leave, predict
from attn_cli.models.toy import Model
from attn_cli.models.vocabulary import Words

Array = NDArray[Any]
T = TypeVar("T")  # what a caller makes of one layer's attention


@dataclass(frozen=True, slots=True, eq=False)
class Passage:
    """What happens around one layer's attention: the steps before it, and those after its output.

    `before` ends in x, what attention reads.
    """

    number: int
    before: tuple[Step, ...]
    after: tuple[Step, ...]


def passages(
    model: Model,
    words: Words,
    *,
    dtype: str,
    attend: Callable[[int, AttentionInputs], T],
    output: Callable[[T], Array],
    load: Load | None = None,
    last: int | None = None,
) -> Iterator[tuple[Passage, T]]:
    """Every layer in turn, with what `attend` made of its number and its question.

    `output` finds the output (1, L, d_model) in that. What lies between the layers is computed
    here, each step rounded to `dtype`; the last layer's steps end in the logits, where the model
    makes some. `load` reads the arrays that a mask names; after layer `last` no more is done.
    """
    exact = Arithmetic(dtype)
    coming = embed(model, words.ids, exact)
    end = model.config.layers - 1
    for number in range(1 + (end if last is None else last)):
        before = enter(model, number, coming, exact)
        inputs = layer_inputs(model, number, before[-1].array, words.tokens, load=load)
        attended = attend(number, inputs)
        _, *after = left = leave(model, number, before, output(attended), exact)
        coming = left[-1]
        if number == end:
            after += predict(model, coming, exact)
        yield Passage(number, before, tuple(after)), attended
