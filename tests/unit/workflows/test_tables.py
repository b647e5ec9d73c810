"""Tables: records of rows and heads, and which of many rows are worth showing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from attn_cli.core.inputs import AttentionInputs, Labels
from attn_cli.core.results import ROW_NUMBERS, ShownRow
from attn_cli.core.trace import Trace
from attn_cli.stats import STATISTICS
from attn_cli.workflows.selection import select
from attn_cli.workflows.tables import ROWS_SHOWN, Rows, best_of, head_rows, listed, picked
from tests.agreement.holding import run
from tests.agreement.samples import built, drawn, stored


def emptied(rows: list[int], **sizes: int) -> AttentionInputs:
    plain = drawn(1, **sizes)
    keep = np.ones(plain.shape[2:], bool)
    keep[rows] = False
    return replace(plain, mask=stored(keep, plain.shape))


def test_every_statistic_has_its_column() -> None:
    assert set(ROW_NUMBERS) == set(STATISTICS)


def records(inputs: AttentionInputs, trace: Trace) -> Rows:
    assert trace.top is not None
    return Rows(inputs, trace, best_of(trace.top))


def test_a_row_as_a_record() -> None:
    tokens = tuple(tuple(f"{item}{i}" for i in range(5)) for item in "ab")
    inputs = replace(drawn(2, batch=2), labels=Labels(tokens, tokens))
    trace = run("numpy", inputs)
    record = records(inputs, trace).record((1, 0, 3))
    assert (record.batch, record.head, record.query, record.token) == (1, 0, 3, "b3")
    assert {name: record.numbers[name] for name in ROW_NUMBERS} == {
        name: trace.stats[name][1, 0, 3] for name in ROW_NUMBERS
    }
    order = np.argsort(-trace["weights"][1, 0, 3])[:3]
    assert [top.key for top in record.top] == order.tolist()
    assert [top.token for top in record.top] == [f"b{key}" for key in order]
    assert [top.weight for top in record.top] == trace["weights"][1, 0, 3][order].tolist()


def test_an_empty_row_and_one_of_nan_look_nowhere() -> None:
    inputs = emptied([1])
    q = inputs.q.copy()
    q[0, 0, 2] = np.nan
    inputs = replace(inputs, q=q)
    trace = run("numpy", inputs)
    rows = records(inputs, trace)
    empty, lost = rows.record((0, 0, 1)), rows.record((0, 0, 2))
    assert empty.empty
    assert not lost.empty
    assert empty.top == lost.top == ()
    assert empty.to_dict()["visible_keys"] == 0
    assert empty.to_dict()["entropy"] is None
    assert lost.to_dict()["sum"] is None
    assert rows.record((0, 0, 0)).token == "0"


def test_rows_are_listed_by_item_head_and_query(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = drawn(3, batch=2)
    selection = select(inputs, items=None, heads=(1,), queries=(0, 4))
    assert listed(selection, every=False) == [(0, 1, 0), (0, 1, 4), (1, 1, 0), (1, 1, 4)]
    monkeypatch.setattr("attn_cli.workflows.tables.ROWS_LISTED", 3)
    assert len(listed(selection, every=False)) == 3
    assert len(listed(selection, every=True)) == 4


def shown(inputs: AttentionInputs, *, every: bool = False) -> tuple[ShownRow, ...]:
    selection = select(inputs, items=None, heads=None, queries=None)
    trace = run("numpy", inputs)
    return records(inputs, trace).shown(picked(trace, selection, every=every))


def test_a_few_rows_are_all_shown_without_a_reason() -> None:
    rows = shown(drawn(4, heads=4, queries=12, q_offset=None))
    assert len(rows) == ROWS_SHOWN
    assert {r.why for r in rows} == {""}


def test_of_many_rows_the_ends_and_the_unusual_are_shown() -> None:
    plain = drawn(5, heads=1, queries=60, keys=60)
    q = plain.q.copy()
    q[0, 0, 17] *= 100
    q[0, 0, 31] = 0
    q[0, 0, 44] = np.nan
    keep = np.ones((60, 60), bool)
    keep[23] = False
    rows = shown(replace(plain, q=q, mask=stored(keep, plain.shape)))
    why = {r.row.query: r.why for r in rows}
    assert list(why) == sorted(why)
    assert why[0].startswith("first")
    assert why[59].startswith("last")
    assert (why[17], why[31]) == ("most focused", "most spread")
    assert (why[44], why[23]) == ("not finite", "sees no key")
    assert "looks farthest" in " ".join(why.values())


def test_one_row_may_have_several_reasons() -> None:
    plain = drawn(6, heads=1, queries=60, keys=60)
    q = plain.q.copy()
    q[0, 0, 0] = 0
    why = shown(replace(plain, q=q))[0].why
    assert why.startswith("first, most spread")


def test_every_row_when_asked() -> None:
    assert len(shown(drawn(7, heads=2, queries=60), every=True)) == 120


def test_means_leave_empty_rows_out_and_rows_without_a_choice() -> None:
    inputs = emptied([1, 3], heads=2)
    trace = run("numpy", inputs)
    first, second = head_rows(trace, select(inputs, items=None, heads=None, queries=None))
    live = [0, 2, 4]
    assert first.empty_rows == second.empty_rows == 2
    for name in ROW_NUMBERS:
        assert first.means[name] == pytest.approx(trace.stats[name][0, 0, live].mean())
    assert trace.cosine is not None
    assert first.mean_cosine == pytest.approx(trace.cosine[0, 0, 1])
    causal = replace(drawn(8), mask=built("causal", drawn(8)))
    trace = run("numpy", causal)
    (head, _) = head_rows(trace, select(causal, items=None, heads=None, queries=None))
    rows = trace.stats["normalized_entropy"][0, 0, 1:]  # query 0 sees one key
    assert head.means["normalized_entropy"] == pytest.approx(rows.mean())


def test_one_head_has_no_cosine_and_a_head_without_rows_no_means() -> None:
    inputs = emptied([0, 1, 2, 3, 4], heads=1)
    (head,) = head_rows(run("numpy", inputs), select(inputs, items=None, heads=None, queries=None))
    assert math.isnan(head.mean_cosine)
    assert all(math.isnan(value) for value in head.means.values())
    assert head.to_dict()["entropy"] is None


def test_a_row_of_nan_makes_its_heads_means_nan() -> None:
    plain = drawn(9)
    q = plain.q.copy()
    q[0, 1, 2] = np.nan
    inputs = replace(plain, q=q)
    first, second = head_rows(
        run("numpy", inputs), select(inputs, items=None, heads=None, queries=None)
    )
    assert math.isfinite(first.means["entropy"])
    assert math.isnan(second.means["entropy"])
