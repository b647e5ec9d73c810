"""Learned positions: a table with one vector a position, added to the token vectors."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from attn_cli.errors import InputError

Array = NDArray[Any]


def learned(positions: range, table: Array) -> Array:
    """The rows of `table` (n_positions, d_model) at `positions`: (n, d_model).

    Raises InputError beyond the table: there is no vector for a position that was never trained.
    """
    if positions.stop > len(table) or positions.start < 0:
        raise InputError(
            f"the learned positions end at {len(table) - 1}, and position {positions.stop - 1} "
            "was asked for",
            hint="a learned table knows no position beyond its training: give a shorter input",
        )
    return table[positions.start : positions.stop]
