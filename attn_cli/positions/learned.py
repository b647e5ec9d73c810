"""Learned positions: a table with one vector a position, added to the token vectors."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from attn_cli.errors import MisfitError
from attn_cli.positions.declaration import Ingredients, Scheme

Array = NDArray[Any]


def learned(positions: range, table: Array) -> Array:
    """The rows of `table` (n_positions, d_model) at `positions`: (n, d_model).

    Raises InputError beyond the table: there is no vector for a position that was never trained.
    """
    if positions.start < 0:
        raise MisfitError(
            f"the learned positions begin at 0, and position {positions.start} was asked for",
            hint="--align upper-left puts query 0 at position 0",
        )
    if positions.stop > len(table):
        raise MisfitError(
            f"the learned positions end at {len(table) - 1}, and position {positions.stop - 1} "
            "was asked for",
            hint="a learned table knows no position beyond its training: give a shorter input",
        )
    return table[positions.start : positions.stop]


def _encode(given: Ingredients, positions: range, d_model: int) -> Array:
    assert given.table is not None  # the scheme asks for one
    return learned(positions, given.table)


SCHEME = Scheme(
    name="learned",
    description="a table from the file, one vector a position, added to the token vectors",
    says=lambda given: f"a table of {0 if given.table is None else len(given.table)} positions",
    encode=_encode,
    table="positions",
)
