"""Findings about rows: sums, empty, filled, saturated and uniform ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attn_cli.checks.rows import EmptyWatch, row_findings, sum_tolerance
from attn_cli.core.findings import Place
from attn_cli.core.inputs import AttentionInputs, Labels
from attn_cli.masks.padding import Padding
from tests.agreement.holding import run
from tests.agreement.samples import built, drawn, stored
from tests.unit.checks.checking import codes, findings, the


def emptied(rows: list[tuple[int, int, int]], **sizes: int) -> AttentionInputs:
    plain = drawn(1, **{"batch": 2, "heads": 3, "queries": 4, "keys": 4, **sizes})
    keep = np.ones(plain.shape, bool)
    for where in rows:
        keep[where] = False
    return replace(plain, mask=stored(keep, plain.shape))


def test_one_empty_row() -> None:
    found = the(findings(emptied([(1, 2, 3)])), "empty-row")
    assert found.severity == "warning"
    assert found.message == (
        "1 row sees no key, so weights, sum and output are 0 there: item 1, head 2, query 3"
    )
    assert found.where == Place("masked", 0, 1, 2, 3)


def test_the_same_rows_of_every_head_are_said_once() -> None:
    found = the(findings(emptied([(1, h, q) for h in range(3) for q in (0, 2)])), "empty-row")
    assert found.message.startswith("6 rows see no key")
    assert found.message.endswith(": item 1, every head, query 0; item 1, every head, query 2")
    assert found.where == Place("masked", 0, 1, 0, 0)


def test_many_rows_are_cut_short() -> None:
    inputs = emptied([(0, 0, q) for q in range(7)], batch=1, heads=1, queries=8)
    found = the(findings(inputs), "empty-row")
    assert found.message.endswith(": query 0; query 1; query 2; query 3; query 4 and 2 more")


def test_tokens_are_named_and_escaped() -> None:
    inputs = emptied([(0, 0, 1)], batch=1, heads=1, queries=2, keys=2)
    tokens = (("我", "\x1b[31m'"),)
    found = the(findings(replace(inputs, labels=Labels(tokens, tokens))), "empty-row")
    assert found.message.endswith(f"query 1 {tokens[0][1]!r}")
    assert "\x1b" not in found.message


def test_long_tokens_are_cut() -> None:
    inputs = emptied([(0, 0, 1)], batch=1, heads=1, queries=2, keys=2)
    tokens = (("a", "b" * 1_000_000),)
    found = the(findings(replace(inputs, labels=Labels(tokens, tokens))), "empty-row")
    assert found.message.endswith(f"query 1 '{'b' * 39}…'")


def test_no_empty_row_is_not_spoken_of() -> None:
    assert "empty-row" not in codes(findings(emptied([])))


def test_a_row_of_finite_fills_is_no_empty_row() -> None:
    additive = np.zeros((5, 5))
    additive[3] = -1e9
    additive[2, 1:] = -1e9  # still sees key 0
    found = findings(drawn(2, additive=additive))
    assert the(found, "finite-fill-row").severity == "warning"
    assert the(found, "finite-fill-row").where == Place("masked", 0, 0, 0, 3)
    assert the(found, "finite-fill-row").message.startswith(
        "2 rows see only keys filled with a large negative number instead of −inf, which masks "
        "nothing: the constant cancels in the softmax (float32 would round the scores away): "
    )
    assert the(found, "finite-fill-row").message.endswith("every head, query 3")
    assert "empty-row" not in codes(found)


@pytest.mark.parametrize("engine", ["numpy", "torch"])
@pytest.mark.parametrize(
    "fill, dtype, words",
    [
        (-1e9, "float32", "and beside it float32 rounds the scores away, so that the weights are"),
        (float(np.finfo(np.float32).min), "float64", "and beside it float64 rounds the scores"),
        (-65504.0, "float64", "which masks nothing: the constant cancels in the softmax: "),
        (-65504.0, "float16", "and beside it float16 rounds the scores away"),
        (-1e9, "float16", "which float16 cannot hold: the weights are NaN: "),
    ],
)
def test_what_a_fill_comes_to(engine: str, fill: float, dtype: str, words: str) -> None:
    additive = np.zeros((5, 5))
    additive[3] = fill
    additive[3, 0] = -np.inf  # that key is hidden in any case
    found = findings(drawn(2, additive=additive), engine=engine, dtype=dtype)
    assert words in the(found, "finite-fill-row").message


def test_a_sink_takes_what_a_fill_leaves() -> None:
    additive = np.zeros((5, 5))
    additive[3] = -1e9
    found = the(findings(drawn(2, additive=additive, sinks=np.zeros(2))), "finite-fill-row")
    assert found.severity == "note"
    assert "and the sink takes all of the weight: every head, query 3" in found.message


def test_one_filled_key_is_no_rounding() -> None:
    additive = np.full((5, 5), -np.inf)
    additive[:, 0] = -1e9
    found = the(findings(drawn(2, additive=additive), dtype="float32"), "finite-fill-row")
    assert "the constant cancels in the softmax (float32 would" in found.message


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_a_fill_that_overflows_hides_and_is_no_fault(engine: str) -> None:
    additive = np.triu(np.full((5, 5), -1e9), 1)
    found = codes(findings(drawn(2, additive=additive), engine=engine, dtype="float16"))
    assert "nonfinite" not in found
    assert "nonfinite-output" not in found


def test_a_row_that_minus_inf_empties_is_not_called_filled() -> None:
    additive = np.zeros((5, 5))
    additive[3] = -np.inf
    found = codes(findings(drawn(2, additive=additive)))
    assert "empty-row" in found
    assert "finite-fill-row" not in found


def test_rows_that_do_not_sum_to_1() -> None:
    inputs = drawn(3)
    trace = run("numpy", inputs)
    trace.stats["sum"][0, 1, 2] = 0.7
    found = the(tuple(row_findings(inputs, trace, EmptyWatch())), "row-sum")
    assert found.severity == "error"
    assert found.message == (
        "1 row of weights does not sum to 1 (worst: 0.700000): head 1, query 2"
    )
    assert found.where == Place("weights", 0, 0, 1, 2)


@pytest.mark.parametrize("dtype, off", [("float64", 1e-14), ("float32", 1e-5), ("float16", 3e-3)])
def test_the_tolerance_of_a_sum_is_a_few_eps(dtype: str, off: float) -> None:
    inputs = drawn(3)
    trace = run("numpy", inputs, dtype)
    assert "row-sum" not in [f.code for f in row_findings(inputs, trace, EmptyWatch())]
    trace.stats["sum"][0, 0, 0] = 1 + off
    assert "row-sum" in [f.code for f in row_findings(inputs, trace, EmptyWatch())]
    assert sum_tolerance(dtype, 5) < off


def test_sinks_say_how_much_they_take() -> None:
    """Two keys of score 0 and a sink of 0: the sink takes a third; one of −inf takes nothing."""
    inputs = drawn(4, size=0.0, heads=1, queries=2, keys=2, sinks=np.zeros(1))
    found = findings(inputs)
    assert the(found, "sinks").severity == "note"
    assert (
        "the sink takes 0.3333 of the weight on average, 0.3333 to 0.3333"
        in the(found, "sinks").message
    )
    assert "row-sum" not in codes(found)
    none = findings(drawn(4, sinks=np.full(2, -np.inf)))
    assert "takes 0.0000 of the weight on average, 0.0000 to 0.0000" in the(none, "sinks").message


def one_hot(rows: int, of: int) -> AttentionInputs:
    """`rows` of `of` queries give one of four keys nearly everything."""
    q = np.zeros((1, 1, of, 4))
    q[0, 0, :rows, 1] = 50.0
    q[0, 0, rows:, 0] = 1.0
    k = np.eye(4)[np.newaxis, np.newaxis]
    return AttentionInputs(q, k, np.ones((1, 1, 4, 1)), q_offset=None)


def test_saturated_rows() -> None:
    found = the(findings(one_hot(2, 8)), "saturated-row")
    assert found.severity == "warning"
    assert found.message == (
        "2 of 8 rows with a choice give one key more than 0.99 of the weight: query 0; query 1"
    )
    assert found.where == Place("weights", 0, 0, 0, 0)


def test_a_rare_saturated_row_is_a_note() -> None:
    assert the(findings(one_hot(1, 100)), "saturated-row").severity == "note"
    assert the(findings(one_hot(6, 100)), "saturated-row").severity == "warning"


def test_rows_without_a_choice_are_not_saturated() -> None:
    plain = drawn(5)
    assert "saturated-row" not in codes(findings(replace(plain, mask=built("sink(1)", plain))))
    assert "saturated-row" not in codes(findings(one_hot(0, 8)))


def test_uniform_rows() -> None:
    found = the(findings(drawn(6, size=0.0)), "uniform-row")
    assert found.severity == "warning"
    assert found.message.startswith("10 rows look at every visible key alike")
    assert "every head, query 0" in found.message


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_identical_tokens_are_uniform_in_every_precision(dtype: str) -> None:
    x = np.broadcast_to(np.random.default_rng(7).normal(size=(1, 1, 1, 8)), (1, 1, 6, 8))
    assert "uniform-row" in codes(findings(AttentionInputs(x, x, x), dtype=dtype))


def test_a_rare_uniform_row_is_a_note() -> None:
    plain = drawn(6, heads=1, queries=40)
    q = plain.q.copy()
    q[0, 0, 17] = 0
    found = the(findings(replace(plain, q=q)), "uniform-row")
    assert found.severity == "note"
    assert found.where == Place("weights", 0, 0, 0, 17)


def test_nearly_equal_scores_are_not_called_uniform() -> None:
    """Two keys of weights .5001 and .4999 are told apart, if only just."""
    k = np.array([[[[0.0], [4e-4]]]])
    one = AttentionInputs(np.ones((1, 1, 1, 1)), k, np.ones((1, 1, 2, 1)), q_offset=None)
    assert "uniform-row" not in codes(findings(one))


def test_padded_queries_are_not_spoken_of() -> None:
    x = np.random.default_rng(5).normal(size=(2, 1, 4, 6))
    x[1, :, 2:] = 0.0  # two tokens of padding: their rows are uniform over the two that are real
    inputs = AttentionInputs(x, x, x, mask=Padding((4, 2)))
    assert "uniform-row" in codes(findings(inputs))
    assert "uniform-row" not in codes(findings(replace(inputs, query_lengths=(4, 2))))
