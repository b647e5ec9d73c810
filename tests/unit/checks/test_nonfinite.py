"""Findings about NaN and ±inf: what brings them in, where they are made, what hides them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attn_cli.core.findings import Place
from attn_cli.core.inputs import AttentionInputs, Labels
from tests.agreement.holding import STEPWISE
from tests.agreement.samples import built, drawn
from tests.unit.checks.checking import codes, findings, the

NAN, INF = float("nan"), float("inf")
SIZES: dict[str, Any] = {"batch": 2, "heads": 4, "kv_heads": 2, "d_v": 3}


def grouped(mask: str = "none") -> AttentionInputs:
    plain = drawn(1, **SIZES)
    return replace(plain, mask=built(mask, plain))


def put(
    inputs: AttentionInputs, name: str, where: tuple[int, ...], value: float
) -> AttentionInputs:
    array = getattr(inputs, name).copy()
    array[where] = value
    return replace(inputs, **{name: array})


@pytest.mark.parametrize(
    "name, where, words, place",
    [
        ("q", (1, 3, 2, 7), "item 1, head 3, query 2, feature 7", Place("q", 0, 1, 3, 2, None)),
        ("k", (0, 1, 4, 0), "item 0, head 1, key 4, feature 0", Place("k", 0, 0, 1, None, 4)),
        ("v", (1, 0, 3, 2), "item 1, head 0, key 3, feature 2", Place("v", 0, 1, 0, None, 3)),
    ],
)
def test_what_comes_in_is_named_with_its_place(
    name: str, where: tuple[int, ...], words: str, place: Place
) -> None:
    found = the(findings(put(grouped(), name, where, NAN)), "nonfinite")
    assert found.severity == "error"
    assert found.message == f"{name} holds 1 NaN, the first at {words}"
    assert found.where == place


def test_numbers_of_each_kind_are_counted() -> None:
    inputs = put(put(grouped(), "v", (0, 0, 0), INF), "v", (0, 0, 1, 0), NAN)
    message = the(findings(inputs), "nonfinite").message
    assert message.startswith("v holds 1 NaN and 3 inf, the first at item 0, head 0, key 0")


def test_one_item_and_one_head_are_not_named_and_tokens_are() -> None:
    inputs = put(drawn(2, heads=1, queries=2, keys=2), "k", (0, 0, 1, 3), NAN)
    tokens = (("the", "cat"),)
    message = the(findings(replace(inputs, labels=Labels(tokens, tokens))), "nonfinite").message
    assert message.endswith("the first at key 1 'cat', feature 3")


@pytest.mark.parametrize("engine", STEPWISE)
def test_rows_that_are_lost_are_counted(engine: str) -> None:
    found = the(
        findings(put(grouped("causal"), "k", (0, 1, 3, 0), NAN), engine=engine), "nonfinite-output"
    )
    assert found.severity == "error"
    # key head 1 serves query heads 2 and 3; queries 3 and 4 see key 3
    assert found.message.startswith("4 of 40 output rows are not finite; NaN or inf passes through")
    assert found.message.endswith("scores, scaled, masked, weights, context")
    assert found.where == Place("context", 0, 0, 2, 3, None)


def test_one_lost_row_is_one() -> None:
    message = the(findings(put(grouped(), "q", (0, 0, 0, 0), NAN)), "nonfinite-output").message
    assert message.startswith("1 of 40 output rows is not finite")


def test_overflow_names_the_stage_that_made_it() -> None:
    inputs = drawn(3, size=400.0)
    found = the(findings(inputs, dtype="float16", file_precision="float64"), "nonfinite")
    assert found.severity == "error"
    assert found.message.startswith("scores is the first stage that is not finite: ")
    assert found.message.endswith("the input is finite, so float16 overflowed")
    assert found.where.stage == "scores"
    assert "nonfinite" not in codes(findings(inputs))


def test_the_first_overflow_is_at_the_coordinates_that_are_said() -> None:
    q = np.ones((2, 1, 3, 1))
    q[1, 0, 2] = 300.0
    k = np.ones((2, 1, 4, 1))
    k[1, 0, 1] = 300.0
    found = the(findings(AttentionInputs(q, k, k, q_offset=None), dtype="float16"), "nonfinite")
    assert found.where == Place("scores", 0, 1, 0, 2, 1)
    assert ": 1 inf, the first at item 1, query 2, key 1; " in found.message


@pytest.mark.parametrize(
    "name, stage, what", [("bias", "biased", "the bias"), ("additive", "masked", "the mask")]
)
def test_what_is_added(name: str, stage: str, what: str) -> None:
    added = np.zeros((5, 5))
    added[2, 3] = NAN
    found = the(findings(replace(grouped(), **{name: added})), "nonfinite")  # type: ignore[arg-type]
    assert found.message == f"{what} holds 1 NaN, the first at item 0, head 0, query 2, key 3"
    assert found.where == Place(stage, 0, 0, 0, 2, 3)


@pytest.mark.parametrize("name", ["bias", "additive"])
def test_minus_inf_in_what_is_added_hides_and_is_no_fault(name: str) -> None:
    added = np.zeros((5, 5))
    added[2, 3] = -INF
    assert findings(replace(drawn(4), **{name: added})) == ()  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["bias", "additive"])
def test_nan_added_where_the_mask_hides_is_no_fault(name: str) -> None:
    added = np.zeros((5, 5))
    added[1, 4] = NAN
    plain = drawn(4)
    inputs = replace(plain, mask=built("causal", plain), **{name: added})  # type: ignore[arg-type]
    assert findings(inputs) == ()


def test_sinks_that_are_not_finite() -> None:
    found = findings(drawn(5, sinks=np.array([0.0, NAN])))
    assert the(found, "nonfinite").message == "sinks hold 1 NaN, the first at head 1"
    assert the(found, "nonfinite").where == Place("weights", 0, None, 1)
    assert "nonfinite" not in codes(findings(drawn(5, sinks=np.array([0.0, -INF]))))


@pytest.mark.parametrize("engine", STEPWISE)
@pytest.mark.parametrize("name", ["k", "v"])
def test_what_hides_behind_a_mask_is_a_warning(engine: str, name: str) -> None:
    found = findings(put(grouped("padding(3)"), name, (1, 1, 4, 0), NAN), engine=engine)
    assert codes(found) == ["hidden-nonfinite"]
    only = the(found, "hidden-nonfinite")
    assert only.severity == "warning"
    assert only.message.startswith(
        f"{name} holds NaN or inf at 1 masked key, the first at item 1, head 1, key 4; "
    )
    assert only.where == Place(name, 0, 1, 1, None, 4)


def test_what_some_rows_see_and_others_do_not_is_both() -> None:
    found = codes(findings(put(grouped("causal"), "v", (0, 0, 2, 0), NAN)))
    assert found == ["nonfinite", "nonfinite-output", "hidden-nonfinite"]


def test_without_a_mask_nothing_is_hidden() -> None:
    assert "hidden-nonfinite" not in codes(findings(put(drawn(6), "k", (0, 0, 1, 0), NAN)))
    causal = codes(findings(put(grouped("causal"), "k", (0, 0, 0, 0), NAN)))
    assert "hidden-nonfinite" not in causal  # every row sees key 0


def test_a_query_that_sees_nothing_may_hold_anything() -> None:
    additive = np.zeros((5, 5))
    additive[2] = -INF
    found = findings(put(drawn(7, additive=additive), "q", (0, 0, 2, 1), NAN))
    assert codes(found) == ["empty-row"]


def test_token_vectors_are_named_and_not_what_was_cut_from_them() -> None:
    x = np.random.default_rng(8).normal(size=(2, 3, 4))
    x[1, 2, 3] = INF
    heads = x.reshape(2, 3, 2, 2).swapaxes(1, 2)
    found = [
        f for f in findings(AttentionInputs(heads, heads, heads, x=x)) if f.code == "nonfinite"
    ]
    assert [f.message for f in found] == ["x holds 1 inf, the first at item 1, token 2, feature 3"]
    assert found[0].where == Place("x", 0, 1, None, 2)


def test_a_context_is_named_where_the_token_vectors_are_finite() -> None:
    x = np.ones((1, 3, 4))
    q, k = x[:, np.newaxis], np.ones((1, 1, 2, 4))
    k[0, 0, 1, 2] = NAN
    found = findings(AttentionInputs(q, k, np.ones((1, 1, 2, 4)), x=x, q_offset=None))
    assert the(found, "nonfinite").message == "k holds 1 NaN, the first at key 1, feature 2"
