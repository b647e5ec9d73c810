"""Differences and autograd against the derivative to 50 digits, and against closed forms."""

from __future__ import annotations

import math
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
import torch
from torch import Tensor

from attn_cli.checks.grads.leaves import leaves
from attn_cli.checks.grads.torch_gradients import gradients
from attn_cli.checks.grads.torch_numeric import WIDEST, along, best_step, differences
from attn_cli.checks.grads.torch_objective import Objective, noise
from attn_cli.checks.grads.torch_subject import TORCH
from attn_cli.core.inputs import AttentionInputs
from tests.unit.checks.grads.faults import jitter
from tests.unit.checks.grads.questions import qkv


def exact(inputs: AttentionInputs, cotangent: Any, index: tuple[int, ...]) -> float:
    """∂φ/∂q at one coordinate of a one-head question, by mpmath's own derivative at 50 digits."""
    q, k, v = (array[0, 0].tolist() for array in (inputs.q, inputs.k, inputs.v))

    def objective(moved: Any) -> Any:
        row = [mpmath.mpf(x) for x in q[index[2]]]
        row[index[3]] = moved
        scores = [mpmath.fdot(row, key) / mpmath.sqrt(len(row)) for key in k]
        weights = [mpmath.exp(score) for score in scores]
        total = mpmath.fsum(weights)
        context = [
            mpmath.fdot(weights, [value[d] for value in v]) / total for d in range(len(v[0]))
        ]
        return mpmath.fdot(cotangent[0, 0, index[2]].tolist(), context)

    with mpmath.workdps(50):
        return float(mpmath.diff(objective, mpmath.mpf(q[index[2]][index[3]])))


def test_attention_against_mpmath() -> None:
    inputs = qkv(1, 1)
    read = {leaf.name: leaf for leaf in leaves(inputs)}
    objective = Objective(TORCH, inputs, 3, read)
    sigma = noise(objective, objective.point, 3)

    def function(q: Tensor) -> Tensor:
        return objective({**objective.point, "q": q})

    q = torch.tensor(inputs.q)
    every = range(q.numel())
    numeric = differences(function, q, every, sigma, best_step(function, q, every, sigma))
    indices = list(np.ndindex(*inputs.q.shape))
    right = [exact(inputs, objective.cotangent, index) for index in indices]
    found = gradients(objective)["q"]
    assert found is not None
    np.testing.assert_allclose(found[0].numpy(), right, rtol=1e-12, atol=1e-15)
    apart = np.abs(numeric.values[:, 0].numpy() - right)
    assert (apart <= numeric.allowed[:, 0].numpy()).all()
    assert float(numeric.allowed.max()) < 1e-8


@pytest.mark.parametrize("x", [0.3, -1.7, 2.5])
def test_the_allowance_holds_for_a_function_whose_derivative_is_known(x: float) -> None:
    def function(t: Tensor) -> Tensor:
        return torch.exp(3 * t).sum().reshape(1)

    leaf, sigma = torch.tensor([x], dtype=torch.float64), torch.tensor([1e-16 * math.exp(3 * x)])
    step = best_step(function, leaf, [0], sigma)
    found = differences(function, leaf, [0], sigma, step)
    right = 3 * math.exp(3 * x)
    assert abs(float(found.values) - right) <= float(found.allowed)
    assert float(found.allowed) < 1e-8 * right


def test_a_straight_line_takes_the_widest_step() -> None:
    leaf = torch.ones(2, dtype=torch.float64)
    assert best_step(lambda t: t.sum().reshape(1), leaf, [0, 1], torch.tensor([1e-16])) == WIDEST


def test_a_steep_function_takes_a_narrow_one() -> None:
    leaf = torch.zeros(1, dtype=torch.float64)

    def steep(t: Tensor) -> Tensor:
        return torch.sin(50 * t).sum().reshape(1)

    assert best_step(steep, leaf, [0], torch.tensor([1e-16])) < 2.0**-16


def test_a_wrong_derivative_is_beyond_the_allowance() -> None:
    leaf = torch.tensor([0.5], dtype=torch.float64)
    found = differences(
        lambda t: t.square().sum().reshape(1), leaf, [0], torch.tensor([1e-16]), 2.0**-17
    )
    assert abs(float(found.values) - 1.0) <= float(found.allowed)
    assert abs(float(found.values) - (1.0 + 1e-8)) > float(found.allowed)


def test_a_coordinate_that_is_nan_and_plays_no_part() -> None:
    leaf = torch.tensor([math.nan, 1.0], dtype=torch.float64)
    found = differences(
        lambda t: t[1].square().reshape(1), leaf, [0, 1], torch.tensor([1e-16]), 2.0**-17
    )
    assert found.values[:, 0].tolist() == pytest.approx([0.0, 2.0], abs=1e-9)


def test_a_direction_is_the_sum_over_its_coordinates() -> None:
    leaf = torch.tensor([1.0, 2.0], dtype=torch.float64)
    direction = torch.tensor([3.0, -1.0], dtype=torch.float64)
    found = along(
        lambda t: t.square().sum().reshape(1), leaf, direction, torch.tensor([1e-16]), 2.0**-17
    )
    assert float(found.values) == pytest.approx(2 * 3 - 4, abs=1e-8)


def test_noise_of_a_known_size_is_measured() -> None:
    leaf = torch.linspace(0.1, 0.9, 7, dtype=torch.float64)

    def rough(point: Any) -> Tensor:
        t: Tensor = point["t"]
        value: Tensor = t.square().sum() + 1e-9 * jitter(t)
        return value.reshape(1)

    measured = [float(noise(rough, {"t": leaf + i}, seed)) for i, seed in enumerate(range(8))]
    uniform = 2e-9 / math.sqrt(12)  # its standard deviation
    assert uniform / 2 < np.median(measured) < 3 * uniform


def test_noise_is_never_less_than_half_an_ulp() -> None:
    constant = torch.tensor([8.0], dtype=torch.float64)
    found = noise(lambda point: constant, {"t": torch.ones(3, dtype=torch.float64)}, 0)
    assert float(found) == 8.0 * 2.0**-53
