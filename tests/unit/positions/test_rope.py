"""rope: two independent implementations agree with it, and scores see offsets alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attn_cli.errors import InputError
from attn_cli.positions.rope import Pairing, Rope

Array = NDArray[Any]
PAIRINGS: tuple[Pairing, ...] = ("half", "interleaved")


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def rotate_half(x: Array, positions: Array, base: float) -> Array:
    """The form that models of the `half` pairing are written in: x·cos + rotate_half(x)·sin."""
    d = x.shape[-1]
    frequency = 1.0 / (base ** (np.arange(0, d, 2) / d))
    angles = np.concatenate([np.outer(positions, frequency)] * 2, axis=-1)
    turned = np.concatenate([-x[..., d // 2 :], x[..., : d // 2]], axis=-1)
    return np.asarray(x * np.cos(angles) + turned * np.sin(angles))


def complex_turn(x: Array, positions: Array, base: float) -> Array:
    """The paper's form: neighbours as one complex number, times e^(i·p·θ)."""
    d = x.shape[-1]
    pairs = x[..., 0::2] + 1j * x[..., 1::2]
    theta = np.array([base ** (-2 * j / d) for j in range(d // 2)])
    pairs = pairs * np.exp(1j * np.outer(positions, theta))
    out = np.empty_like(x)
    out[..., 0::2], out[..., 1::2] = pairs.real, pairs.imag
    return out


INDEPENDENT = {"half": rotate_half, "interleaved": complex_turn}


@pytest.mark.parametrize("base", [10_000.0, 500.0, 1e6])
@pytest.mark.parametrize("d_k", [2, 6, 64])
@pytest.mark.parametrize("pairing", PAIRINGS)
def test_an_independent_implementation_agrees(pairing: Pairing, d_k: int, base: float) -> None:
    x, positions = normal(1, 2, 3, 9, d_k), np.arange(5, 14)
    right = INDEPENDENT[pairing](x, positions, base)
    np.testing.assert_allclose(
        Rope(pairing, base).rotate(x, positions), right, rtol=1e-12, atol=1e-13
    )


def test_the_pairings_turn_the_same_numbers_of_other_features() -> None:
    """Features 0 2 4 1 3 5 under `half` are 0 1 2 3 4 5 under `interleaved`."""
    x, positions = normal(2, 4, 6), np.arange(4)
    order = [0, 2, 4, 1, 3, 5]
    half = Rope("half").rotate(x[:, order], positions)
    np.testing.assert_array_equal(half, Rope("interleaved").rotate(x, positions)[:, order])
    assert not np.allclose(
        Rope("half").rotate(x, positions), Rope("interleaved").rotate(x, positions)
    )


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_scores_depend_on_the_offset_alone(pairing: Pairing) -> None:
    rope, places = Rope(pairing), np.arange(12)
    q, k = (np.broadcast_to(normal(seed, 1, 16), (12, 16)) for seed in (3, 4))
    scores = rope.rotate(q, places) @ rope.rotate(k, places).T
    for offset in range(-11, 12):
        diagonal = np.diagonal(scores, offset)
        np.testing.assert_allclose(diagonal, diagonal[0], rtol=0, atol=1e-12)
    moved = rope.rotate(q, places + 1000) @ rope.rotate(k, places + 1000).T
    np.testing.assert_allclose(moved, scores, rtol=0, atol=1e-10)
    assert np.ptp(scores[0]) > 0.1  # and they do depend on it


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_position_0_and_lengths_stay(pairing: Pairing) -> None:
    x, rope = normal(5, 3, 7, 10), Rope(pairing)
    np.testing.assert_array_equal(rope.rotate(x, np.zeros(7, int)), x)
    turned = rope.rotate(x, np.arange(7))
    np.testing.assert_allclose(
        np.linalg.norm(turned, axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-13
    )


def test_the_first_pair_turns_by_one_radian_a_position() -> None:
    turned = Rope("half").rotate(np.array([[1.0, 0.0]]), np.array([1]))
    np.testing.assert_allclose(turned, [[np.cos(1), np.sin(1)]], rtol=1e-15)


def test_a_precision_is_kept() -> None:
    x = normal(6, 3, 4).astype(np.float32)
    assert Rope().rotate(x, np.arange(3)).dtype == np.float32


def test_an_odd_width_has_no_pairs() -> None:
    Rope().check_width(6)
    with pytest.raises(InputError, match="d_k is 5, expected an even number"):
        Rope().check_width(5)
