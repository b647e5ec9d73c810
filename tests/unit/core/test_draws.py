"""draws: the same numbers for ever, spread as they should be."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from attn_cli.core.draws import LARGEST_SEED, log, normal, quantile, uniform

WORD = 2**64
STEP = 0x9E3779B97F4A7C15


def splitmix(word: int) -> int:
    """splitmix64's output function in whole numbers of any size."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % WORD
    return word ^ (word >> 31)


def number(seed: int, stream: int, index: int) -> float:
    """Draw `index`, from 0, of a stream, without numpy: the upper 52 bits, in the middle."""
    state = splitmix((splitmix(seed) + stream) % WORD)
    word = splitmix((state + (index + 1) * STEP) % WORD)
    return ((word >> 12) + 0.5) / 2**52


@pytest.mark.parametrize("seed", [0, 1, 12345, LARGEST_SEED])
@pytest.mark.parametrize("stream", [0, 3])
def test_uniform_numbers_are_counted_out_of_splitmix64(seed: int, stream: int) -> None:
    drawn = uniform(seed, stream, (3, 5))
    assert drawn.ravel().tolist() == [number(seed, stream, i) for i in range(15)]


def test_the_numbers_are_pinned() -> None:
    """Anything that changes these changes what a seed means."""
    assert [float(x).hex() for x in uniform(0, 0, (3,))] == [
        "0x1.c4415072f63b9p-1",
        "0x1.b9e279aa86e5ap-2",
        "0x1.b117462002520p-6",
    ]
    assert [float(x).hex() for x in normal(0, 0, (4,))] == [
        "0x1.3113564d87a18p+0",
        "-0x1.613ffcfdc1e78p-3",
        "-0x1.ef9dc7d042e5ap+0",
        "0x1.e4d7bc88acdb6p+0",
    ]


def test_a_longer_draw_begins_like_a_shorter_one() -> None:
    np.testing.assert_array_equal(normal(7, 2, (100,))[:10], normal(7, 2, (10,)))


def test_streams_and_seeds_share_no_numbers() -> None:
    drawn = np.concatenate([uniform(s, t, (50,)) for s in range(10) for t in range(8)])
    assert len(set(drawn.tolist())) == len(drawn)
    assert ((drawn > 0) & (drawn < 1)).all()


def test_uniform_numbers_are_uniform() -> None:
    drawn = uniform(3, 1, (100_000,))
    shares, _ = np.histogram(drawn, bins=20, range=(0, 1))
    expected = 100_000 / 20
    chi_square = ((shares - expected) ** 2 / expected).sum()
    assert chi_square < 43.8  # 19 degrees of freedom: once in a thousand


def test_the_quantile_is_the_normal_distributions() -> None:
    normal_distribution = NormalDist()
    p = [2.0**-53, 1e-9, 0.001, 0.0242, 0.02425, 0.0243, 0.3, 0.5, 0.7, 0.9757, 0.97576, 1 - 1e-9]
    p += uniform(1, 0, (500,)).tolist()
    right = [normal_distribution.inv_cdf(x) for x in p]
    np.testing.assert_allclose(quantile(np.array(p)), right, rtol=1.5e-9, atol=1e-9)


def test_normal_numbers_have_the_moments_of_a_unit_normal() -> None:
    drawn = normal(5, 0, (200_000,))
    moments = [(drawn**power).mean() for power in (1, 2, 3, 4)]
    # Four standard errors of each moment: √(1, 2, 15, 96) / √200,000.
    np.testing.assert_array_less(
        np.abs(np.subtract(moments, [0, 1, 0, 3])), 4 * np.sqrt([1, 2, 15, 96]) / math.sqrt(200_000)
    )
    assert np.abs(drawn).max() > 4


def test_the_logarithm_is_right_to_a_few_ulps() -> None:
    x = np.concatenate([np.logspace(-300, 300, 601), np.linspace(0.6, 1.6, 1001)])
    right = np.array([math.log(value) for value in x])
    ulps = np.abs(log(x) - right) / np.spacing(np.maximum(np.abs(right), 1e-3))
    assert ulps.max() <= 4


def test_an_empty_shape_is_drawn() -> None:
    assert uniform(0, 0, (0, 3)).shape == (0, 3)
