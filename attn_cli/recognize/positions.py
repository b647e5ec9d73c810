"""Positions: the scheme that was asked for, made of its settings and of the file's tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from attn_cli.core.blank import blank
from attn_cli.core.dump import Dump
from attn_cli.core.findings import Finding, note
from attn_cli.core.positions import Rotation, ScoreBias
from attn_cli.errors import InputError
from attn_cli.positions import POSITIONS
from attn_cli.positions.declaration import MAX_DISTANCE, ROPE_BASE, Ingredients, Scheme
from attn_cli.recognize.settings import Asked
from attn_cli.recognize.tables import (
    SAVED_AS,
    SHAPES,
    FoundTable,
    find_table,
    positions_table,
    relative_table,
    unused_tables,
)

Array = NDArray[Any]

SETTINGS = ("rope_base", "relative_bidirectional", "max_distance")


@dataclass(frozen=True, slots=True)
class Positioning:
    """A scheme with all that it is made of but the number of heads; `table` where it asks for one.

    `text` is how it is written, with its variant; None where there are no positions.
    """

    scheme: Scheme
    text: str | None
    ingredients: Ingredients
    table: FoundTable | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def compares(self) -> bool:
        """Whether it compares the positions of queries and keys, which then need one origin."""
        return self.scheme.acts in ("rotates", "bias")

    def read(self, name: str) -> Any:
        """The value of a setting, where the scheme reads it; else None."""
        values = {
            "rope_base": self.ingredients.rope_base,
            "relative_bidirectional": self.ingredients.bidirectional,
            "max_distance": self.ingredients.max_distance,
        }
        return values[name] if name in self.scheme.settings else None


def find_positions(dumps: Sequence[Dump], asked: Asked) -> Positioning:
    """The scheme that was asked for; `dumps` are the files that may hold its table.

    Raises InputError for a scheme or variant that is not known, a table that is missing, and an
    option that belongs to another scheme.
    """
    text = "none" if asked.choices.positions is None else asked.choices.positions
    name, _, variant = text.partition(":")
    scheme = POSITIONS[name]
    if text not in scheme.spellings:
        raise InputError(
            f"{asked.origin('positions')} is {text!r}: expected {' or '.join(scheme.spellings)}"
        )
    variant = variant or (scheme.variants[0] if scheme.variants else "")
    _check_idle(scheme, asked)
    table = None if scheme.table is None else find_table(dumps, scheme.table)
    if scheme.table is not None and table is None:
        raise InputError(
            f"{asked.origin('positions')} is {text}, and no file brings its table",
            hint=f"it is an array called {SAVED_AS[scheme.table]}, {SHAPES[scheme.table]}",
        )
    return Positioning(
        scheme=scheme,
        text=None if scheme.acts == "nothing" else f"{name}:{variant}" if variant else name,
        ingredients=_ingredients(variant, asked),
        table=table,
        findings=unused_tables(dumps, scheme.table),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Encodings:
    """What is added to the token vectors (L, d_model) and to those attended to (S, d_context)."""

    x: Array
    context: Array | None
    findings: tuple[Finding, ...]


def encodings(
    positions: Positioning, widths: tuple[int, int | None], at: tuple[range, range | None]
) -> Encodings | None:
    """The vectors that are added at the positions of x and of the context, where there is one.

    `widths` and `at` are those of x and of the context; None where the scheme adds nothing.
    """
    encode = positions.scheme.encode
    if encode is None:
        return None
    given = positions.ingredients
    if positions.table is not None:
        for width in widths:
            if width is not None:
                given = replace(given, table=positions_table(positions.table, width))
    x = encode(given, at[0], widths[0])
    context = None
    if widths[1] is not None and at[1] is not None:
        context = encode(given, at[1], widths[1])
    words = f"{positions.text} is added to the token vectors: {positions.scheme.says(given)}"
    if at[1] is not None:
        words += f"; x counts from {at[0].start}, the context from {at[1].start}"
    return Encodings(x, context, (note("positions", words),))


def without_numbers(positions: Positioning) -> Positioning:
    """The same for blank token vectors: what a formula would give is blank, a table's part is not
    looked into."""
    scheme = positions.scheme
    if scheme.encode is None or positions.table is not None:
        return positions
    empty = replace(scheme, encode=lambda given, at, width: blank((len(at), width)))
    return replace(positions, scheme=empty)


@dataclass(frozen=True, slots=True, eq=False)
class Inside:
    """What positions do inside the core: turn q and k, or bias the scores."""

    rotation: Rotation | None = None
    bias: ScoreBias | None = None
    findings: tuple[Finding, ...] = ()


def inside(positions: Positioning, heads: int) -> Inside:
    """The rotation or the bias of the scheme for so many heads; neither where it is added."""
    scheme, given = positions.scheme, replace(positions.ingredients, heads=heads)
    if not positions.compares:
        return Inside()
    if positions.table is not None:
        given = replace(given, table=relative_table(positions.table, heads))
    rotation = None if scheme.rotate is None else scheme.rotate(given)
    bias = None if scheme.bias is None else scheme.bias(given)
    does = "turns q and k" if scheme.acts == "rotates" else "is added to the scaled scores"
    words = f"{positions.text} {does}: {scheme.says(given)}"
    return Inside(rotation, bias, (note("positions", words),))


def _ingredients(variant: str, asked: Asked) -> Ingredients:
    chosen = asked.choices
    bidirectional = chosen.relative_bidirectional
    return Ingredients(
        heads=1,  # known when q is
        variant=variant,
        rope_base=ROPE_BASE if chosen.rope_base is None else float(chosen.rope_base),
        bidirectional=True if bidirectional is None else bidirectional,
        max_distance=chosen.max_distance or MAX_DISTANCE,
    )


def _check_idle(scheme: Scheme, asked: Asked) -> None:
    for name in SETTINGS:
        if asked.told(name) and name not in scheme.settings:
            owner = next(each for each in POSITIONS if name in POSITIONS[each].settings)
            raise InputError(
                f"{asked.origin(name)} was given, and the positions are {scheme.name}",
                hint=f"it belongs to --positions {owner}",
            )
