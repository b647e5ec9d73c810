"""Behaviour lines: each holds for right code, and fails for code that breaks it."""

from __future__ import annotations

from typing import Any

import pytest

from attn_cli.core.results_impl import Behaviour
from attn_cli.diagnosis.adapting import adapt_object
from attn_cli.diagnosis.behaviour import behaviour
from attn_cli.diagnosis.interviewing import interview
from attn_cli.diagnosis.plan_json import said_of
from tests.unit.diagnosis.impls import verdicts, wrong_causal, wrong_functions, wrong_modules
from tests.unit.diagnosis.wrong_cases import (
    BATCHED,
    LAYER,
    LAYER_INTENT,
    MASKED,
    NUMPY,
    PACKED,
    PACKED_INTENT,
    PLAIN,
    function,
)

WEIGHTS = function(returns=("out", "weights"), differ=False)


def lines(code: Any, call: Any, intent: Any) -> dict[str, Behaviour]:
    said = said_of({"call": call, "intent": intent})
    with adapt_object(code, said, name="code") as adapted:
        return {line.check: line for line in behaviour(adapted, interview(adapted))}


BROKEN: tuple[tuple[str, Any, Any, Any, Any], ...] = (
    (
        "causality",
        wrong_causal.causal_right,
        wrong_causal.causal_leaks_next,
        PLAIN,
        {"causal": True},
    ),
    (
        "batch independence",
        wrong_functions.right,
        wrong_functions.attends_over_batch,
        BATCHED,
        {},
    ),
    (
        "permutation equivariance",
        wrong_functions.right,
        wrong_functions.key_reshaped_not_transposed,
        PLAIN,
        {},
    ),
    (
        "rows sum to 1",
        wrong_functions.with_weights_right,
        wrong_functions.returns_scores_as_weights,
        WEIGHTS,
        {},
    ),
    ("padding invariance", wrong_modules.Layer, wrong_modules.PadAdded, LAYER, LAYER_INTENT),
    ("gradients", wrong_modules.Layer, wrong_modules.ValueUsesKey, LAYER, LAYER_INTENT),
)


@pytest.mark.parametrize(
    "check, right, wrong, call, intent", BROKEN, ids=[case[0] for case in BROKEN]
)
def test_it_holds_for_right_code_and_fails_for_wrong(
    check: str, right: Any, wrong: Any, call: Any, intent: Any
) -> None:
    assert lines(right, call, intent)[check].status == "holds"
    assert lines(wrong, call, intent)[check].status == "fails"


def test_the_parameter_that_no_gradient_reaches_is_named() -> None:
    found = lines(wrong_modules.ValueUsesKey, LAYER, LAYER_INTENT)["gradients"]
    assert "value.weight" in found.detail


@pytest.mark.parametrize(
    "code, words",
    [
        (verdicts.uniform_when_empty, "uniform"),
        (verdicts.nan_when_empty, "NaN"),
        (wrong_functions.right_sdpa, "become 0"),
    ],
)
def test_empty_rows_are_described_and_not_judged(code: Any, words: str) -> None:
    found = lines(code, MASKED, {})["empty rows"]
    assert found.status == "note"
    assert words in found.detail


def test_an_empty_row_of_a_layer_is_its_output_bias() -> None:
    found = lines(wrong_modules.Packed, PACKED, PACKED_INTENT)["empty rows"]
    assert "become 0" in found.detail


def test_precisions_that_are_not_taken_are_notes() -> None:
    found = lines(wrong_functions.numpy_right, NUMPY, {})
    assert found["float16"].status == "holds"
    assert "bfloat16" not in found
    taken = lines(only_double, PLAIN, {})
    assert taken["float16"].status == "note"
    assert "not taken" in taken["float16"].detail


def only_double(q: Any, k: Any, v: Any) -> Any:
    """Fails in any precision but the widest ones."""
    if "16" in str(q.dtype):
        raise TypeError("float32 or float64, please")
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return scores.softmax(-1) @ v
