"""sinusoidal: distances between encodings, by the offset alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from attn_cli.positions.sinusoidal import sinusoidal


def distances(d_model: int, count: int = 12, start: int = 0) -> NDArray[np.float64]:
    """|PE(p) − PE(q)| for every two of `count` positions."""
    table = sinusoidal(np.arange(start, start + count), d_model)
    return np.asarray(np.linalg.norm(table[:, None] - table[None], axis=-1))


def by_hand(position: int, d_model: int) -> list[float]:
    """The paper's formula, one number after the other."""
    numbers = []
    for feature in range(d_model):
        angle = position / 10_000 ** (2 * (feature // 2) / d_model)
        numbers.append(math.sin(angle) if feature % 2 == 0 else math.cos(angle))
    return numbers


@pytest.mark.parametrize("d_model", [1, 2, 5, 8, 64])
def test_each_number_is_the_papers(d_model: int) -> None:
    places = np.array([-3, 0, 1, 7, 1000])
    expected = [by_hand(int(p), d_model) for p in places]
    np.testing.assert_allclose(sinusoidal(places, d_model), expected, rtol=0, atol=1e-13)


def test_the_first_positions_of_width_4() -> None:
    expected = np.array([[0, 1, 0, 1], [0.841471, 0.540302, 0.010000, 0.999950]])
    np.testing.assert_allclose(sinusoidal(np.arange(2), 4), expected, rtol=0, atol=5e-7)


@pytest.mark.parametrize("d_model", [8, 64, 512])
def test_a_distance_depends_on_the_offset_alone(d_model: int) -> None:
    near, far = distances(d_model), distances(d_model, start=500)
    for offset in range(1, 12):
        diagonal = np.diagonal(near, offset)
        np.testing.assert_allclose(diagonal, diagonal[0], rtol=1e-10)
        np.testing.assert_allclose(np.diagonal(far, offset), diagonal[0], rtol=1e-9)


@pytest.mark.parametrize(
    "d_model, one, two", [(8, 0.9641, 1.6949), (64, 1.47185, 2.71887), (512, 3.71427, 6.96655)]
)
def test_two_steps_are_farther_than_one(d_model: int, one: float, two: float) -> None:
    found = distances(d_model)
    digits = 4 if d_model == 8 else 5
    assert found[0, 2] > found[0, 1]
    np.testing.assert_allclose(found[0, 1], found[1, 2], rtol=1e-12)
    assert round(found[0, 1], digits) == one
    assert round(found[0, 2], digits) == two


def test_distances_do_not_grow_with_the_offset_everywhere() -> None:
    found = distances(8)
    assert round(found[0, 6], 3) == 0.658
    assert found[0, 6] < found[0, 1]


def test_encodings_have_one_length() -> None:
    table = sinusoidal(np.arange(100), 32)
    np.testing.assert_allclose(np.linalg.norm(table, axis=1), math.sqrt(16), rtol=1e-12)
