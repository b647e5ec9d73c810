"""One step: each stage from the one before it, and how far right code may be from it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attn_cli.core.engine import Ask
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.onestep import Rule, next_stages, rule_of
from attn_cli.core.rounding import precision
from attn_cli.core.slicing import one_item
from attn_cli.core.step_budget import STEP_ULPS, fault_free, floor, step_budget
from attn_cli.engines import ENGINES
from attn_cli.workflows.diff_engines import compared_steps
from tests.agreement.layer_samples import LAYERS
from tests.agreement.samples import SAMPLES, drawn

CASES = {**SAMPLES, **{f"layer {name}": make for name, make in LAYERS.items()}}


def everything(inputs: AttentionInputs, dtype: str = "float64") -> dict[str, np.ndarray]:
    """Every stage that numpy shows."""
    wanted = frozenset(step.stage for step in compared_steps(inputs))
    trace = ENGINES["numpy"].run(inputs, Ask(keep=wanted, dtype=dtype))
    return {name: stage.array for name, stage in trace.stages.items()}


@pytest.mark.parametrize("name", list(CASES))
def test_with_nothing_held_the_stages_are_those_of_the_oracle(name: str) -> None:
    inputs = one_item(CASES[name](), 0)
    oracle, made = everything(inputs), next_stages(rule_of(inputs), {})
    assert set(made) == set(oracle)
    for stage, right in oracle.items():
        np.testing.assert_allclose(made[stage], right, rtol=1e-12, atol=1e-12, err_msg=stage)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("name", list(CASES))
def test_right_code_has_no_fault(name: str, dtype: str) -> None:
    inputs = one_item(CASES[name](), 0)
    held = everything(inputs, dtype)
    found = fault_free(rule_of(inputs), held, dtype=dtype)
    assert set(found) == set(held)
    for stage, (made, budget) in found.items():
        both = np.isfinite(made) & np.isfinite(held[stage])
        np.testing.assert_array_equal(np.isnan(made), np.isnan(held[stage]), stage)
        off = np.abs(np.where(both, held[stage] - np.where(both, made, 0), 0))
        assert (off <= budget).all(), stage


def test_each_stage_is_made_from_the_one_that_is_held() -> None:
    inputs = drawn(1, scale=0.5)
    held = {name: array * 3 for name, array in next_stages(rule_of(inputs), {}).items()}
    made = next_stages(rule_of(inputs), held)
    np.testing.assert_allclose(made["scores"], held["q"] @ held["k"].swapaxes(-1, -2))
    np.testing.assert_allclose(made["scaled"], held["scores"] * 0.5)
    np.testing.assert_allclose(made["context"], held["weights"] @ held["v"])


def test_a_stage_that_nobody_shows_is_made_on_the_way() -> None:
    inputs = drawn(1)
    right = next_stages(rule_of(inputs), {})
    made = next_stages(rule_of(inputs), {"scores": right["scores"] * 2, "v": right["v"]})
    np.testing.assert_allclose(made["scaled"], right["scaled"] * 2)
    assert not np.allclose(made["context"], right["context"])


def test_nothing_is_made_behind_a_step_that_is_unknown() -> None:
    rule = replace(rule_of(drawn(1)), unknown=frozenset({"masked"}), every=True)
    assert "masked" not in next_stages(rule, {})
    assert "weights" not in next_stages(rule, {})
    shown = {"masked": np.array([[[[0.0, -np.inf], [-np.inf, -np.inf]]]])}
    weights = next_stages(Rule({}, unknown=frozenset({"masked"}), every=True), shown)["weights"]
    np.testing.assert_array_equal(weights, [[[[1, 0], [0, 0]]]])


def test_a_hidden_value_that_is_no_number_stays_where_it_is_hidden() -> None:
    v = np.array([[[[1.0], [np.inf]]]])
    visible = np.array([[[[True, False], [True, True]]]])
    held = {"weights": np.array([[[[1.0, 0.0], [0.5, 0.5]]]]), "v": v}
    made = next_stages(Rule({}, visible=visible), held)
    np.testing.assert_array_equal(made["context"], [[[[1.0], [np.inf]]]])


def test_the_floor_is_in_ulps_of_the_largest_value() -> None:
    held = {"scores": np.array([[[[1.0, -3.0], [np.nan, np.inf]]]])}
    ulp = float(precision("float32").ulp(np.array(3.0)))
    assert floor(held, "float32")["scores"].item() == STEP_ULPS * ulp
    assert floor(held, "float64")["scores"].item() == 2 * STEP_ULPS * 2.0**-51


def test_the_budget_grows_with_what_a_stage_may_have_been_before_it_was_rounded() -> None:
    """At scores near 50 half an ulp of bfloat16 is 0.125, and moves a weight by an eighth."""
    scores = np.full((1, 1, 4, 6), 50.0)
    rule, held = Rule({}), {"scores": scores}
    right = next_stages(rule, held)
    budget = step_budget(rule, held, right, dtype="bfloat16")["weights"].item()
    assert 0.125 / 6 < budget < 1
