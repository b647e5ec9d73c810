"""relative: T5's buckets, against an implementation in whole numbers."""

from __future__ import annotations

import numpy as np
import pytest

from attn_cli.errors import InputError
from attn_cli.positions.declaration import Ingredients
from attn_cli.positions.relative import SCHEME, RelativeBias, bucket


def one_bucket(offset: int, buckets: int, farthest: int, bidirectional: bool) -> int:
    """The paper's rule for k − q without a logarithm.

    Half of the buckets are for single distances, the others for ranges that grow by a constant
    factor up to the farthest distance: j ranges in when (distance / half)^n ≥ (farthest / half)^j.
    """
    start = 0
    if bidirectional:
        buckets //= 2
        start = buckets if offset > 0 else 0
        distance = abs(offset)
    else:
        distance = max(-offset, 0)
    half = buckets // 2
    if distance < half:
        return start + distance
    ranges = buckets - half
    j = 0
    while (
        j + 1 < ranges and distance**ranges * half ** (j + 1) >= farthest ** (j + 1) * half**ranges
    ):
        j += 1
    return start + half + j


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(
    "buckets, farthest", [(32, 128), (16, 64), (64, 256), (8, 32), (20, 100), (33, 128), (4, 9)]
)
def test_buckets_are_the_papers(buckets: int, farthest: int, bidirectional: bool) -> None:
    offsets = np.arange(-300, 301)
    found = bucket(offsets, buckets=buckets, max_distance=farthest, bidirectional=bidirectional)
    expected = [one_bucket(int(o), buckets, farthest, bidirectional) for o in offsets]
    np.testing.assert_array_equal(found, expected)


def test_t5s_own_buckets_by_example() -> None:
    """32 buckets up to 128, both ways: 0 to 7 one each, then 8-11, 12-15, 16-22, … on each side."""
    offsets = np.array([0, -1, -7, -8, -11, -12, -16, -127, -128, -5000, 1, 7, 8, 12, 128])
    found = bucket(offsets, buckets=32, max_distance=128, bidirectional=True)
    assert found.tolist() == [0, 1, 7, 8, 8, 9, 10, 15, 15, 15, 17, 23, 24, 25, 31]


def test_the_bias_is_the_tables_number_for_the_bucket() -> None:
    table = np.arange(24.0).reshape(8, 3)
    b, h, q, k = np.ix_([0], range(3), range(5), range(5))
    bias = RelativeBias(table, bidirectional=False, max_distance=16)(b, h, q, k)
    assert bias.shape == (1, 3, 5, 5)
    for head, query, key in np.ndindex(3, 5, 5):
        expected = table[one_bucket(key - query, 8, 16, False), head]
        assert bias[0, head, query, key] == expected
    assert (bias[0, :, 0, 1:] == bias[0, :, 0, :1]).all()  # keys after the query share bucket 0


@pytest.mark.parametrize(
    "buckets, bidirectional, farthest, words",
    [
        (3, True, 128, "has 3 buckets: expected at least 4"),
        (1, False, 128, "has 1 buckets: expected at least 2"),
        (32, True, 8, "greatest distance is 8, .* expected more than 8"),
        (32, False, 16, "expected more than 16"),
    ],
)
def test_buckets_that_tell_no_distances_apart(
    buckets: int, bidirectional: bool, farthest: int, words: str
) -> None:
    assert SCHEME.bias is not None
    given = Ingredients(
        heads=2,
        table=np.zeros((buckets, 2)),
        bidirectional=bidirectional,
        max_distance=farthest,
    )
    with pytest.raises(InputError, match=words):
        SCHEME.bias(given)
