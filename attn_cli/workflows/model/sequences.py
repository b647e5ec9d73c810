"""Sequences: the tokens that an input has by name, and which of them a call's sides are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from attn_cli.core.masks import BoolArray
from attn_cli.core.model_calls import CallFacts
from attn_cli.core.model_flow import TokenPlace
from attn_cli.workflows.model.real_rows import in_decoder, real_keys, real_queries, unpadded

if TYPE_CHECKING:
    from attn_cli.models.hf.inputs import ModelInputs

Name = Literal["main", "decoder"]
Labels = tuple[tuple[str, ...], ...]
Sides = tuple[Name | None, Name | None]  # of the queries and of the keys


def sequences(inputs: ModelInputs) -> dict[Name, Labels]:
    """The main sequence (tokens, or a picture's patches) and the decoder's, where they are."""
    found: dict[Name, Labels] = {
        "main": inputs.tokens or inputs.patches,
        "decoder": inputs.decoder_tokens,
    }
    return {name: labels for name, labels in found.items() if labels}


def labels_of(inputs: ModelInputs, facts: CallFacts) -> tuple[Labels | None, Labels | None]:
    """What the queries and keys of a call are called.

    Of a picture or a sound without names, each position has an empty one.
    """
    if sequences(inputs) or facts.batch != inputs.batch:
        return inputs.labels_of(facts)
    return (("",) * facts.queries,) * facts.batch, (("",) * facts.keys,) * facts.batch


def sides_of(inputs: ModelInputs, facts: CallFacts) -> Sides:
    """Which sequence a call's queries and keys are; None for one without names."""
    queries, keys = inputs.labels_of(facts)
    under: Name = "decoder" if in_decoder(inputs, facts) else "main"
    there = sequences(inputs)
    of_keys: Name = "main" if facts.cross else under
    return (
        under if queries is not None and there.get(under) == queries else None,
        of_keys if keys is not None and there.get(of_keys) == keys else None,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Marked:
    """Marked tokens (B, n) by sequence; padding among them never counts.

    `position` is the marked one of an input whose positions have no names.
    """

    inputs: ModelInputs
    marks: Mapping[Name, BoolArray]
    position: int | None = None

    def items(self) -> BoolArray:
        """(B,): the items of the batch that have a marked token."""
        having = np.full(self.inputs.batch, self.position is not None)
        for marks in self.marks.values():
            having |= marks.any(-1)
        return having

    def keys(self, facts: CallFacts) -> BoolArray | None:
        """(B, S): the marked keys of a call, None where it has none of these tokens."""
        if self.position is not None:
            return self._unnamed(facts, facts.keys)
        name = sides_of(self.inputs, facts)[1]
        if name is None or name not in self.marks:
            return None
        return self.marks[name] & real_keys(self.inputs, facts)

    def queries(self, facts: CallFacts) -> BoolArray | None:
        """(B, L): the marked queries of a call."""
        if self.position is not None:
            return self._unnamed(facts, facts.queries)
        name = sides_of(self.inputs, facts)[0]
        if name is None or name not in self.marks:
            return None
        return self.marks[name] & real_queries(self.inputs, facts)

    def _unnamed(self, facts: CallFacts, length: int) -> BoolArray | None:
        if facts.batch != self.inputs.batch:
            return None
        marks = np.zeros((facts.batch, length), bool)
        assert self.position is not None
        marks[:, self.position : self.position + 1] = True
        return marks

    def onto(self, facts: CallFacts) -> tuple[BoolArray, BoolArray] | None:
        """All other tokens as queries, and the marked ones as keys."""
        keys, mine = self.keys(facts), self.queries(facts)
        if keys is None:
            return None
        real = real_queries(self.inputs, facts)
        return (real if mine is None else real & ~mine), keys


def places(labels: Labels, marks: BoolArray) -> Iterator[TokenPlace]:
    """The marked tokens, item by item."""
    for item, position in np.argwhere(marks).tolist():
        yield TokenPlace(item, position, labels[item][position])


def real_of(inputs: ModelInputs, name: Name) -> BoolArray:
    """(B, n): the tokens of a sequence that are no padding."""
    labels = sequences(inputs)[name]
    return unpadded(inputs, (len(labels), len(labels[0])), decoder=name == "decoder")
