"""What a layer is given: its arrays by name, and which of their numbers are no numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.checks.nonfinite import used
from attn_cli.checks.places import axes_of, place_in_words
from attn_cli.core.findings import Place
from attn_cli.core.inputs import FINITE_FILL, AttentionInputs
from attn_cli.core.rounding import round_to

Array = NDArray[Any]
Bools = NDArray[np.bool_]

ADDED = {"bias": "biased", "additive": "masked"}
NAMES = {"additive": "the mask", "bias": "the bias", "context": "the context"}


@dataclass(frozen=True, slots=True, eq=False)
class GivenArray:
    """One array of the input in a precision: what is not finite there and takes part.

    `bad` and `hidden` have the array's shape; `rounded` says that the file's number is finite and
    the precision cannot hold it.
    """

    name: str
    label: str
    array: Array
    bad: Bools
    hidden: Bools

    @property
    def where(self) -> tuple[int, ...]:
        """The first bad element."""
        return tuple(int(i) for i in np.unravel_index(int(self.bad.argmax()), self.bad.shape))

    @property
    def value(self) -> float:
        return float(self.array[self.where])

    def place(self) -> Place:
        if self.name in ("x", "q", "k", "v"):
            return Place(stage=self.name, layer=0, **axes_of(self.name, self.where))
        return Place(stage=ADDED.get(self.name, self.name), layer=0)

    def words(self, inputs: AttentionInputs) -> str:
        """Where the first bad element is: with tokens for vectors, plain indices elsewhere."""
        if self.name in ("x", "q", "k", "v"):
            return place_in_words(inputs, self.name, self.where)
        return f"[{', '.join(map(str, self.where))}]"


def given_arrays(inputs: AttentionInputs, dtype: str) -> Iterator[GivenArray]:
    """Every array that a layer is given, in the order in which it is used."""
    for name, label, array in _named(inputs):
        bad = ~np.isfinite(round_to(array, dtype))
        if name in ADDED:  # −inf hides a key, and so does a fill that becomes it
            bad &= ~(np.isneginf(array) | (array <= FINITE_FILL))
        elif name == "sinks":
            bad &= ~np.isneginf(array)
        hidden = np.zeros_like(bad)
        if bad.any() and name in ("q", "k", "v"):
            takes_part = used(inputs, name)[..., None]
            hidden, bad = bad & ~takes_part, bad & takes_part
        elif bad.any() and name in ADDED:
            hidden, bad = _over_pairs(inputs, bad)
        yield GivenArray(name, label, array, bad, hidden)


def _over_pairs(inputs: AttentionInputs, bad: Bools) -> tuple[Bools, Bools]:
    """What of a mask or bias lies at hidden keys alone, and the rest."""
    visible = inputs.visible()
    seen = np.broadcast_to(bad, inputs.shape) & (True if visible is None else visible)
    extra = len(inputs.shape) - bad.ndim
    reduced: Bools = np.asarray(seen.any(tuple(range(extra))))
    for axis, size in enumerate(bad.shape):
        if size == 1:
            reduced = np.asarray(reduced.any(axis, keepdims=True))
    return bad & ~reduced, bad & reduced


def _named(inputs: AttentionInputs) -> Iterator[tuple[str, str, Array]]:
    origin = inputs.origin
    if inputs.x is not None:
        yield "x", "x", inputs.x
    if origin is None:
        yield from ((name, name, getattr(inputs, name)) for name in ("q", "k", "v"))
    else:
        for name in ("context", "encoding", "context_encoding"):
            if (array := getattr(origin, name)) is not None:
                yield name, NAMES.get(name, "the table of positions"), array
        for field in fields(origin.projections) if origin.projections is not None else ():
            if (array := getattr(origin.projections, field.name)) is not None:
                kind, letter = field.name.split("_")
                yield field.name, f"{kind.upper() if kind == 'w' else kind}_{letter}", array
    for name in ("bias", "additive", "sinks"):
        if (array := getattr(inputs, name)) is not None:
            yield name, NAMES.get(name, name), array
