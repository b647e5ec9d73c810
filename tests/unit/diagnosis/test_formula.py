"""The formula in steps is the engine's, and each step can be replaced by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attn_cli.core.layer import Projections
from attn_cli.diagnosis.asking import Sizes, draw_question
from attn_cli.diagnosis.drawing import Parameters, draw, draw_matrices
from attn_cli.diagnosis.formula.run import budgets, run
from attn_cli.diagnosis.formula.steps import STEPS
from attn_cli.diagnosis.formula.work import Arithmetic, Setting, Work
from attn_cli.diagnosis.meaning import reference
from attn_cli.diagnosis.plan_json import plan_of
from attn_cli.diagnosis.probes.suite import suite
from tests.unit.diagnosis.wrong_cases import (
    CROSS,
    CROSS_INTENT,
    LAYER,
    LAYER_INTENT,
    LINEAR_INTENT,
    MASKED,
    PACKED,
    PACKED_INTENT,
    ROTARY,
    ROTARY_INTENT,
    TABLE,
    TABLE_INTENT,
    function,
    module,
)

MASKS = (
    "drop_pair", "additive_pair", "bias_pair", "keep_pad", "drop_pad_b11", "keep_btt",
    "keep_pair_b1", "bias_1htt",
)  # fmt: skip
PLANS: dict[str, tuple[Any, Any]] = {
    "functions": (MASKED, {}),
    "window": (function(differ=False), {"causal": True, "window": 3}),
    "both sides": (function(differ=False), {"window": 2}),
    "expression": (function(differ=False), {"mask": "causal | sink(1)"}),
    "cap": (MASKED, {"softcap": 2.0, "causal": True}),
    "scale": (MASKED, {"scale": 0.3}),
    "grouped": (function(layouts=["BHLD"]), {"heads": 6, "kv_heads": 2}),
    "layer": (LAYER, LAYER_INTENT),
    "packed": (PACKED, PACKED_INTENT),
    "rotary": (ROTARY, ROTARY_INTENT),
    "alibi": (module(), LINEAR_INTENT),
    "table": (TABLE, TABLE_INTENT),
    "cross": (CROSS, CROSS_INTENT),
    "q, k, v": (module(("q", "k", "v"), differ=True), LAYER_INTENT),
    **{kind: (function(layouts=["BHLD"], mask=kind), {}) for kind in MASKS[:3]},
    **{
        kind: (module(mask=("mask", kind, "float")), LAYER_INTENT)
        for kind in MASKS[3:]
        if kind.startswith("bias")
    },
    **{
        kind: (module(mask=("mask", kind, "bool")), LAYER_INTENT)
        for kind in MASKS[3:]
        if not kind.startswith("bias")
    },
}


def setting(call: Any, intent: Any) -> Setting:
    """A plan with numbers drawn for the layer that it has."""
    plan = plan_of(call, intent)
    width = plan.call.dim or 0
    if not width:
        return Setting(plan, Parameters())
    heads = plan.intent.heads or 1
    d = plan.intent.head_dim or width // heads
    kv = (plan.intent.kv_heads or heads) * d
    shapes: dict[str, tuple[int, ...]] = {
        "w_q": (width, heads * d), "w_k": (width, kv), "w_v": (width, kv),
        "w_o": (heads * d, width), "b_q": (heads * d,), "b_v": (kv,), "b_o": (width,),
    }  # fmt: skip
    table = draw(5, 1, (50, width)) if plan.intent.positions else None
    return Setting(plan, Parameters(Projections(**draw_matrices(shapes, 3)), None, table))


@pytest.mark.parametrize("name", PLANS)
def test_it_is_the_engines(name: str) -> None:
    held = setting(*PLANS[name])
    probes = suite(held)
    assert len(probes) >= 6
    for probe in probes:
        question = probe.question
        trace, outcome = reference(question), run(question, held)
        assert outcome.output is not None
        assert outcome.weights is not None
        np.testing.assert_allclose(
            outcome.output, trace[question.stage], atol=1e-12 * max(1, np.abs(outcome.output).max())
        )
        np.testing.assert_allclose(outcome.weights, trace["weights"], atol=1e-11)


def test_sinks_are_the_engines() -> None:
    plan = plan_of(function(layouts=["BHLD"]), {"heads": 3})
    held = Setting(plan, Parameters(sinks=np.array([0.5, -1.0, 2.0])))
    question = draw_question(plan, held.parameters, Sizes(), name="sinks")
    outcome = run(question, held)
    assert outcome.weights is not None
    np.testing.assert_allclose(outcome.weights, reference(question)["weights"], atol=1e-14)
    assert outcome.weights.sum(-1).max() < 1


def _first_head_twice(work: Work) -> None:
    STEPS["group"](work)
    work.v = np.repeat(work.v[:, :1], work.v.shape[1], axis=1)


def test_a_replaced_step_changes_that_and_what_follows() -> None:
    held = setting(LAYER, LAYER_INTENT)
    question = draw_question(held.plan, held.parameters, Sizes(), name="one")
    right, wrong = run(question, held), run(question, held, {"group": _first_head_twice})
    assert right.weights is not None
    assert wrong.weights is not None
    assert right.output is not None
    assert wrong.output is not None
    np.testing.assert_array_equal(wrong.weights, right.weights)
    assert np.abs(wrong.output - right.output).max() > 0.1


def _misshapen(work: Work) -> None:
    work.scores = work.arithmetic.matmul(work.q, work.k)


def test_shapes_that_do_not_fit_fail_as_code_would() -> None:
    held = setting(MASKED, {})
    question = draw_question(held.plan, held.parameters, Sizes(queries=5), name="misfit")
    assert run(question, held, {"scores": _misshapen}).failed


def test_rows_that_see_nothing_are_loose() -> None:
    held = setting(MASKED, {})
    question = draw_question(held.plan, held.parameters, Sizes(), name="rows", masked=True)

    def hidden(work: Work) -> None:
        work.passed = np.zeros((1, 1, *work.lengths), bool)

    outcome = run(question, held, {"passed": hidden})
    assert outcome.loose is not None
    assert outcome.loose.all()


def test_the_budget_holds_float32_runs_and_little_more() -> None:
    held = setting(LAYER, LAYER_INTENT)
    question = draw_question(held.plan, held.parameters, Sizes(), name="budget")
    exact = run(question, held)
    assert exact.output is not None
    room = budgets(question, held, {}, exact)["output"]
    for seed in range(20):
        plain = run(question, held, {}, Arithmetic("float32", np.random.default_rng(100 + seed)))
        assert plain.output is not None
        assert (np.abs(plain.output - exact.output) <= room).all()
    assert room.max() < 1e-4
