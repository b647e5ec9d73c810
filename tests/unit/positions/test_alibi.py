"""alibi: the paper's slopes, and a penalty that grows with the distance."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attn_cli.positions.alibi import Alibi, slopes


def test_eight_heads_have_the_papers_slopes() -> None:
    assert slopes(8) == tuple(1 / 2**i for i in range(1, 9))


def test_twelve_heads_take_every_other_one_of_sixteen() -> None:
    sixteen = [2 ** (-i / 2) for i in range(1, 17)]
    expected = [1 / 2**i for i in range(1, 9)] + sixteen[0:8:2]
    np.testing.assert_allclose(slopes(12), expected, rtol=1e-15)


def reference(heads: int) -> list[float]:
    """The rule in words: a geometric series from 2^(−8/n); else two series of powers of two."""
    if heads & (heads - 1) == 0:
        first = 2 ** (-8 / heads)
        return [first ** (i + 1) for i in range(heads)]
    below = 1 << (heads.bit_length() - 1)
    return reference(below) + reference(2 * below)[0::2][: heads - below]


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 6, 7, 8, 12, 16, 20, 33, 64, 100])
def test_slopes_follow_the_rule(heads: int) -> None:
    found = slopes(heads)
    assert len(found) == heads
    np.testing.assert_allclose(found, reference(heads), rtol=1e-12)
    assert all(0 < slope < 1 for slope in found)


def test_the_bias_is_minus_the_slope_times_the_distance() -> None:
    b, h, q, k = np.ix_([0], [0, 1, 2], [4, 5], range(7))
    bias = Alibi(slopes(3))(b, h, q, k)
    assert bias.shape == (1, 3, 2, 7)
    for head, query, key in np.ndindex(3, 2, 7):
        expected = -slopes(3)[head] * abs((4, 5)[query] - key)
        assert math.isclose(bias[0, head, query, key], expected)
