"""Engine numpy: no warning whatever the numbers, sums kept wider than half precision."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from attn_cli.engines.numpy_ref import weigh
from tests.agreement.holding import STEPWISE, run
from tests.agreement.samples import drawn

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("engine", STEPWISE)
@pytest.mark.parametrize("size", [1e-200, 1e-30, 1e30, 1e155, 1e200])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_no_numbers_make_numpy_warn(engine: str, size: float, dtype: str) -> None:
    inputs = drawn(1, size=size)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(engine, replace(inputs, softcap=5.0, sinks=np.array([1.0, -1e300])), dtype)
        run(engine, replace(inputs, bias=np.full((5, 5), 1e308), scale=1e300), dtype)


def test_half_precision_sums_are_kept_in_single() -> None:
    """300 products of 1 · 1: added up in float16 they would stop at 2048, here 300·300 = 90,000
    overflows and 300 does not."""
    ones = np.ones((1, 1, 1, 3000))
    trace = run("numpy", replace(drawn(2), q=ones, k=ones, v=ones, scale=1.0), "float16")
    assert trace["scores"].item() == 3000


def test_weights_times_values_without_a_mask_are_the_plain_product() -> None:
    v = np.array([[[1.0, INF], [2.0, 3.0]]])
    w = np.array([[[0.0, 1.0], [0.5, 0.5]]])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(weigh(w, v, None), w @ v)


@pytest.mark.parametrize(
    "values, row, expected",
    [
        ((NAN, 1.0), (True, True), NAN),
        ((NAN, 1.0), (False, True), 1.0),
        ((INF, 1.0), (True, True), INF),
        ((-INF, 1.0), (True, True), -INF),
        ((INF, -INF), (True, True), NAN),
        ((INF, NAN), (True, True), NAN),
        ((INF, INF), (False, True), INF),
        ((INF, 1.0), (False, True), 1.0),
    ],
)
def test_values_that_are_not_finite(
    values: tuple[float, float], row: tuple[bool, bool], expected: float
) -> None:
    visible = np.array([[row]])
    w = visible / visible.sum(-1, keepdims=True)
    v = np.array([[[value, value] for value in values]])
    np.testing.assert_array_equal(weigh(w, v, visible), [[[expected, expected]]])


def test_inf_of_a_visible_key_whose_weight_is_0_is_nan() -> None:
    """0·inf is NaN by the formula, for a key that the row may see."""
    visible = np.ones((1, 1, 2), bool)
    w, v = np.array([[[0.0, 1.0]]]), np.array([[[INF], [1.0]]])
    np.testing.assert_array_equal(weigh(w, v, visible), [[[NAN]]])
