"""Blank arrays: the shapes and dtypes of real ones, without their memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attn_cli.core.blank import Blank, blank
from attn_cli.errors import InputError

Array = NDArray[Any]

OPERATIONS: dict[str, Callable[[Array], Any]] = {
    "sum with a number": lambda a: a + 1.5,
    "product with floats": lambda a: a * np.ones((1, 4), np.float64),
    "a broadcast": lambda a: a[:, :1] - a,
    "a comparison": lambda a: a == 0,
    "both comparisons": lambda a: (a == 0) | (a == 1),
    "a matrix product": lambda a: a @ a.swapaxes(-1, -2),
    "a batched product": lambda a: a @ np.ones((4, 7), np.float32),
    "split and swapped": lambda a: a.reshape(2, 3, 2, 2).swapaxes(1, 2),
    "transposed": lambda a: a.T,
    "a slice": lambda a: a[..., 1:3],
    "a new axis": lambda a: a[None],
    "converted": lambda a: a.astype(np.float16),
    "copied": lambda a: a.T.copy(order="C"),
    "where": lambda a: np.where(a == 0, np.float32(0), a),
    "any of an axis": lambda a: (a != 0).any(1),
    "the largest of an axis": lambda a: a.max(-1, keepdims=True),
    "minus infinity": lambda a: np.isneginf(a),
    "a NaN": lambda a: np.isnan(a),
    "broadcast": lambda a: np.broadcast_to(a, (5, 2, 3, 4)),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_shapes_and_dtypes_are_those_of_real_arrays(name: str, dtype: type) -> None:
    operation = OPERATIONS[name]
    expected = operation(np.zeros((2, 3, 4), dtype))
    made = operation(blank((2, 3, 4), dtype))
    assert made.shape == expected.shape
    assert made.dtype == expected.dtype
    assert np.all(np.asarray(made).strides == (0,) * made.ndim)


@pytest.mark.parametrize("name", OPERATIONS)
def test_size_costs_nothing(name: str) -> None:
    if name in ("split and swapped", "a batched product", "product with floats", "broadcast"):
        return  # they name sizes of their own
    assert OPERATIONS[name](blank((1 << 17, 3, 1 << 12), np.float32)).size >= 1 << 17


def test_reductions_without_an_axis_are_numbers() -> None:
    assert bool((blank((3, 4)) == 0).all())
    assert not bool(blank((3, 4)).any())
    assert bool((blank((3, 4), value=-1) < 0).all())


def test_a_value_survives_views_and_arithmetic() -> None:
    made = blank((4, 4), value=-1).reshape(2, 8)[None] * 2
    assert isinstance(made, Blank)
    assert made.one == -2


def test_products_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="fit together"):
        blank((2, 3)) @ blank((4, 5))


def test_an_impossible_shape() -> None:
    with pytest.raises(InputError, match="larger than any"):
        blank((1 << 40, 1 << 40))
