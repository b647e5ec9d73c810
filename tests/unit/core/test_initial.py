"""initial: projections as a layer starts with them, and the variance that they give to q."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attn_cli.core.draws import normal
from attn_cli.core.initial import Sizes, initial
from attn_cli.core.layer import Projections
from attn_cli.core.settings import Init

Array = NDArray[Any]

INITS: tuple[Init, ...] = ("xavier", "normal", "default")
UNEQUAL = Sizes(d_model=12, d_context=20, heads=4, kv_heads=2, d_k=3, d_v=5)


def wide(width: int, into: int = 512) -> Sizes:
    return Sizes(d_model=into, d_context=into, heads=1, kv_heads=1, d_k=width, d_v=width)


@pytest.mark.parametrize("init", INITS)
def test_matrices_are_in_by_out_and_lead_back(init: Init) -> None:
    made = initial(init, 0, UNEQUAL)
    shapes = [matrix.shape for matrix in (made.w_q, made.w_k, made.w_v)]
    assert shapes == [(12, 12), (20, 6), (20, 10)]
    assert made.w_o is not None
    assert made.w_o.shape == (20, 12)
    assert UNEQUAL.numbers == 12 * 12 + 20 * 6 + 20 * 10 + 20 * 12


def test_only_the_default_has_biases() -> None:
    for init in ("xavier", "normal"):
        made = initial(init, 0, UNEQUAL)
        assert (made.b_q, made.b_k, made.b_v, made.b_o) == (None,) * 4
    made = initial("default", 0, UNEQUAL)
    biases = [made.b_q, made.b_k, made.b_v, made.b_o]
    assert [None if bias is None else bias.shape for bias in biases] == [(12,), (6,), (10,), (12,)]


# What 512 features of unit variance become: 512 · var(W), and the bias's own variance with it.
VARIANCES: dict[Init, float] = {
    "default": 512 / (3 * 512) + 1 / (3 * 512),
    "xavier": 512 * 2 / (512 + 64),
    "normal": 512.0,
}


def test_the_expected_variances_are_those_of_the_textbook() -> None:
    assert [round(VARIANCES[init], 3) for init in ("default", "xavier", "normal")] == [
        0.334,
        1.778,
        512.0,
    ]


@pytest.mark.parametrize("init", INITS)
def test_the_variance_of_q_at_512_to_64(init: Init) -> None:
    """Over twenty layers and 500 vectors; the mean of 640,000 squares is off by under 1 %."""
    x = normal(99, 0, (500, 512))
    squares = [_q(x, initial(init, seed, wide(64))) ** 2 for seed in range(20)]
    assert np.mean(squares) == pytest.approx(VARIANCES[init], rel=0.01)


def _q(x: Array, made: Projections) -> Array:
    q: Array = x @ made.w_q + (0 if made.b_q is None else made.b_q)
    return q


@pytest.mark.parametrize(
    "init, limit", [("xavier", (6 / (512 + 64)) ** 0.5), ("default", 512**-0.5)]
)
def test_uniform_numbers_reach_their_limit_and_keep_to_it(init: Init, limit: float) -> None:
    made = initial(init, 4, wide(64))
    largest = np.abs(made.w_q).max()
    assert 0.999 * limit < largest < limit
    assert abs(made.w_q.mean()) < 0.01 * limit


def test_a_matrix_does_not_depend_on_the_others() -> None:
    one = initial("normal", 3, UNEQUAL)
    other = initial("normal", 3, Sizes(d_model=12, d_context=7, heads=4, kv_heads=1, d_k=3, d_v=9))
    np.testing.assert_array_equal(one.w_q, other.w_q)
    assert one.w_k.shape != other.w_k.shape
    flat = [matrix.ravel()[:20].tolist() for matrix in (one.w_q, one.w_k, one.w_v)]
    assert flat[0] != flat[1] != flat[2] != flat[0]


def test_a_seed_gives_the_same_numbers_for_ever() -> None:
    sizes = Sizes(d_model=8, d_context=8, heads=1, kv_heads=1, d_k=4, d_v=4)
    first = {init: float(initial(init, 0, sizes).w_q[0, 0]).hex() for init in INITS}
    assert first == {
        "xavier": "0x1.158bf2b0c3a44p-1",
        "normal": "0x1.3113564d87a18p+0",
        "default": "0x1.158bf2b0c3a44p-2",
    }
    last = {init: float(_w_o(initial(init, 0, sizes))).hex() for init in INITS}
    assert last == {
        "xavier": "0x1.23acd62e42fb3p-1",
        "normal": "0x1.4c3d1627fb406p+0",
        "default": "0x1.9c7dae74ab036p-2",
    }
    bias = initial("default", 0, sizes).b_v
    assert bias is not None
    assert float(bias[0]).hex() == "-0x1.3e4155a417edcp-2"


def _w_o(made: Projections) -> float:
    assert made.w_o is not None
    return float(made.w_o[-1, -1])


def test_another_seed_gives_other_numbers() -> None:
    one, other = (initial("xavier", seed, UNEQUAL).w_v for seed in (0, 1))
    assert not np.intersect1d(one, other).size
