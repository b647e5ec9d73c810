"""learned: rows of a table, and nothing beyond it."""

from __future__ import annotations

import numpy as np
import pytest

from attn_cli.errors import InputError
from attn_cli.positions.learned import learned

TABLE = np.arange(20.0).reshape(5, 4)


@pytest.mark.parametrize("positions", [range(3), range(5), range(2, 4), range(4, 5)])
def test_a_position_has_its_row(positions: range) -> None:
    np.testing.assert_array_equal(learned(positions, TABLE), TABLE[list(positions)])


@pytest.mark.parametrize("positions, asked", [(range(6), 5), (range(3, 9), 8)])
def test_beyond_the_trained_length_there_is_none(positions: range, asked: int) -> None:
    with pytest.raises(InputError, match=f"end at 4, and position {asked} was asked for") as caught:
        learned(positions, TABLE)
    assert "shorter" in caught.value.hint


def test_nor_before_the_first() -> None:
    with pytest.raises(InputError, match="begin at 0, and position -2 was asked for"):
        learned(range(-2, 3), TABLE)
