"""The token of --ablate-key: a position, or every token that is called so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attn_cli.core.model_flow import TokenPlace
from attn_cli.errors import InputError
from attn_cli.workflows.model.sequences import Marked, Name, places, real_of, sequences

if TYPE_CHECKING:
    from attn_cli.models.hf.inputs import ModelInputs

OPTION = "--ablate-key"
LONGEST = 9  # digits of a position


def ablated(inputs: ModelInputs, token: str) -> tuple[Marked, tuple[TokenPlace, ...]]:
    """The tokens in every item of the batch. A number is a position of the main sequence.

    A word is looked for there first, then in the decoder's sequence. InputError where nothing is.
    """
    there = sequences(inputs)
    number = token.isascii() and token.isdigit() and len(token) <= LONGEST
    if not there:
        if not number:
            raise InputError(
                f"{OPTION} is {token!r}, and the positions of this input have no names",
                hint="give a position, counted from 0",
            )
        where = tuple(TokenPlace(item, int(token), "") for item in range(inputs.batch))
        return Marked(inputs, {}, int(token)), where
    name: Name
    for name, labels in there.items():
        marks = np.zeros((len(labels), len(labels[0])), bool)
        if number:
            marks[:, int(token) : int(token) + 1] = True
        else:
            marks[:] = [[each == token for each in row] for row in labels]
        marks &= real_of(inputs, name)
        if marks.any():
            return Marked(inputs, {name: marks}), tuple(places(labels, marks))
        if number:
            break
    longest = max(map(len, next(iter(there.values()))))
    raise InputError(
        f"{OPTION}: there is no token {token!r}",
        hint=f"give a position from 0 to {longest - 1}, or a token as the screen shows it",
    )
