"""What `attn check shapes` can be asked for, and what of it says something of which thing."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field

from attn_cli.core.settings import Choices
from attn_cli.errors import InputError
from attn_cli.masks.expression import parse
from attn_cli.positions import POSITIONS
from attn_cli.recognize.settings import option, resolve

WIDTHS = frozenset({"heads", "kv_heads", "d_k", "d_v"})
READING = frozenset({"context", "weights", "weights_layout", "layout", "mask_means", "mask_axes"})
SCORES = frozenset({"align", "positions", "scale", "softcap"})
SIZES = frozenset({"batch", "seq", "key_seq", "d_model"})
LAYERS = frozenset({"layers"})
# By what is looked at, the options that would have nothing to act on.
IDLE = {
    "sizes alone": READING | LAYERS,
    "a file of its own sizes": SIZES | LAYERS,
    "a model": WIDTHS | READING | SCORES | {"d_model"},
    "a checkpoint": WIDTHS | READING | SCORES | {"d_model"},
}


def check_choices(choices: Choices) -> None:
    """InputError for what nothing could make right: out of range, no mask, no position scheme."""
    resolve({}, choices)
    for text in choices.masks:
        parse(text)
    if choices.positions is not None:
        spellings = POSITIONS[choices.positions.partition(":")[0]].spellings
        if choices.positions not in spellings:
            expected = " or ".join(spellings)
            raise InputError(f"--positions is {choices.positions!r}: expected {expected}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapesOptions:
    """None: not said. `choices` hold what a run takes too."""

    choices: Choices = field(default_factory=Choices)
    batch: int | None = None
    seq: int | None = None
    key_seq: int | None = None
    d_model: int | None = None
    dtype: str | None = None
    context: str | None = None
    weights: str | None = None
    layers: tuple[int, ...] | None = None

    def refuse_idle(self, kind: str, source: str) -> None:
        """InputError for an option that says nothing of a thing of this kind (a key of IDLE)."""
        idle = list(self._said(IDLE[kind]))
        if idle:
            names = " and ".join("--layer" if name == "layers" else option(name) for name in idle)
            does = "says" if len(idle) == 1 else "say"
            raise InputError(
                f"{names} {does} nothing of {kind}" + (f", and {source} is one" if source else ""),
                hint="leave it out" if len(idle) == 1 else "leave them out",
            )

    def _said(self, names: Set[str]) -> Iterator[str]:
        for name in sorted(names):
            holder = self.choices if hasattr(self.choices, name) else self
            if getattr(holder, name) is not None:
                yield name
