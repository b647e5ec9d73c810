"""The measured budget: what goes into it, and that plain runs are right by themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attn_cli.core.budget import FACTOR, RUNS, ULPS, measure_budget, plain_run
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.rounding import precision
from attn_cli.core.trace import STAGES
from tests.agreement.holding import run
from tests.agreement.samples import SAMPLES, drawn

INF = float("inf")


def oracle(inputs: AttentionInputs) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    trace = run("numpy", inputs)
    return {name: trace[name] for name in STAGES}


def test_the_rule_is_the_one_that_is_written_down() -> None:
    assert (RUNS, FACTOR, ULPS) == (3, 3.0, 2.0)


def test_exact_arithmetic_leaves_two_ulps_of_the_largest_value() -> None:
    """q, k and v of small whole numbers and a scale of 1: scores have no error at all."""
    whole = np.arange(16.0).reshape(1, 1, 4, 4)
    inputs = AttentionInputs(whole, whole, whole, scale=1.0)
    largest = float((whole[0, 0] @ whole[0, 0].T).max())
    for dtype in ("float32", "bfloat16"):
        budget = measure_budget(inputs, oracle(inputs), dtype=dtype)
        if dtype == "float32":
            np.testing.assert_array_equal(
                budget["scores"], 2 * precision(dtype).ulp(np.array(largest)).reshape(1, 1, 1, 1)
            )
        assert set(budget) == set(STAGES)
        assert all(array.shape == (1, 1, 1, 1) for array in budget.values())


def test_in_float64_both_sides_round() -> None:
    whole = np.arange(16.0).reshape(1, 1, 4, 4)
    inputs = AttentionInputs(whole, whole, whole, scale=1.0)
    ulp = float(precision("float64").ulp(np.array(whole[0, 0, 3] @ whole[0, 0, 3])))
    assert measure_budget(inputs, oracle(inputs), dtype="float64")["scores"].item() == 2 * 2 * ulp


def test_a_budget_belongs_to_its_item_and_head() -> None:
    """Head 1 holds numbers a thousand times as large: its budget is not that of head 0."""
    plain = drawn(1, batch=2)
    q = plain.q.copy()
    q[:, 1] *= 1000
    inputs = replace(plain, q=q)
    scores = measure_budget(inputs, oracle(inputs), dtype="float32")["scores"][..., 0, 0]
    assert scores.shape == (2, 2)
    assert (scores[:, 1] > 100 * scores[:, 0]).all()


def test_only_stages_that_the_oracle_holds_are_measured() -> None:
    inputs = drawn(2)
    stages = oracle(inputs)
    budget = measure_budget(inputs, {"weights": stages["weights"]}, dtype="float32")
    assert list(budget) == ["weights"]
    whole = measure_budget(inputs, stages, dtype="float32")
    np.testing.assert_array_equal(budget["weights"], whole["weights"])


def test_budgets_grow_as_the_precision_shrinks() -> None:
    inputs = drawn(3)
    sizes = [
        measure_budget(inputs, oracle(inputs), dtype=dtype)["weights"].max()
        for dtype in ("float64", "float32", "float16", "bfloat16")
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] < 1e-14
    assert 1e-3 < sizes[-1] < 0.1


def test_a_budget_is_the_same_every_time_and_another_by_seed() -> None:
    inputs = SAMPLES["many_keys"]()
    stages = oracle(inputs)
    first, again = (measure_budget(inputs, stages, dtype="float32") for _ in "ab")
    other = measure_budget(inputs, stages, dtype="float32", seed=1)
    for name in STAGES:
        np.testing.assert_array_equal(first[name], again[name])
    assert any((first[name] != other[name]).any() for name in STAGES)


@pytest.mark.parametrize("sample", list(SAMPLES))
def test_a_plain_run_is_attention_by_itself(sample: str) -> None:
    """In float64 it agrees with the golden-tested oracle to rounding, stage by stage."""
    inputs, rng = SAMPLES[sample](), np.random.default_rng(4)
    stages = oracle(inputs)
    b, h = inputs.shape[0] - 1, inputs.shape[1] - 1
    plain = plain_run(inputs, b, h, dtype="float64", rng=rng)
    for name in STAGES:
        np.testing.assert_allclose(plain[name], stages[name][b, h], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["q", "k", "v"])
@pytest.mark.parametrize("value", [float("nan"), INF, -INF])
def test_what_is_not_finite_is_left_out_without_a_warning(name: str, value: float) -> None:
    plain = drawn(5)
    array = getattr(plain, name).copy()
    array[0, 0, 1] = value
    inputs = replace(plain, **{name: array})
    for dtype in ("float64", "float16", "bfloat16"):
        budget = measure_budget(inputs, oracle(inputs), dtype=dtype)
        assert all(np.isfinite(array).all() for array in budget.values())


def test_what_overflows_the_precision_is_left_out() -> None:
    inputs = drawn(6, size=300.0, scale=1.0)  # scores beyond 65,504
    budget = measure_budget(inputs, oracle(inputs), dtype="float16")
    assert all(np.isfinite(array).all() for array in budget.values())
