"""The row table: its columns by width, left-out rows, empty and lost rows."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len

from attn_cli.core.results import RunResult
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.names import names
from attn_cli.render.terminal.rows import rows
from tests.unit.render.example import apple, random, result
from tests.unit.render.screens import drawn, pipe, terminal


def lines(shown: RunResult, screen: Screen, *, bits: bool = False) -> list[str]:
    return drawn(rows(shown, names(shown, screen), bits=bits), screen)


def test_columns_at_100() -> None:
    shown = lines(result(apple()), terminal(100))
    assert shown[0].split("  ") == [
        *("head", "query", "sees", "Σ weights", "entropy/nat", "of maximum", "effective keys"),
        "looks at",
    ]
    assert (
        " ".join(shown[3].split()) == "苹果 3 1.000000 0.949 86% 2.58 喜欢 0.57 苹果 0.30 我 0.13"
    )
    assert shown[4].startswith("   1  我")


def test_entropy_in_bits() -> None:
    nats = lines(result(apple()), terminal(100))
    bits = lines(result(apple()), terminal(100), bits=True)
    assert "entropy/bit" in bits[0]
    assert float(bits[3].split()[3]) == pytest.approx(
        float(nats[3].split()[3]) / np.log(2), abs=2e-3
    )


def test_a_wide_screen_has_distance_and_first_key() -> None:
    head = lines(result(apple()), terminal(200))[0]
    assert re.split(r"\s{2,}", head)[7:] == ["mean distance", "on key 0", "looks at"]


@pytest.mark.parametrize("width", range(60, 150, 5))
def test_no_width_is_exceeded(width: int) -> None:
    tokens = ["extraordinarily", "long", "tokens", "here"]
    shown = lines(result(random((2, 2, 4, 4), tokens=tokens)), terminal(width))
    assert max(map(cell_len, shown)) <= width
    assert not any(re.search(r"\d…|…\d", line) for line in shown)


def test_an_empty_row_sees_no_key() -> None:
    visible = np.array([[True, False, False], [False] * 3, [True] * 3])
    shown = lines(result(apple(visible=visible)), terminal(100))
    assert " ".join(shown[2].split()) == "喜欢 0 ! 0.000000 – – – no key"


def test_a_lost_row_says_nan() -> None:
    case = result(apple())
    first = case.shown_rows[1]
    numbers = dict.fromkeys(first.row.numbers, np.nan) | {"visible_keys": 2.0}
    lost = replace(first, row=replace(first.row, numbers=numbers, top=()))
    shown = lines(replace(case, shown_rows=(lost,)), terminal(100))
    assert " ".join(shown[1].split()) == "0 喜欢 2 ! NaN NaN NaN NaN"


def test_left_out_rows_are_counted_and_the_shown_ones_explained() -> None:
    case = result(random((1, 1, 50, 4), rows=(0, 1, 7, 49)))
    why = ("first", "", "most focused", "last")
    shown_rows = tuple(replace(r, why=w) for r, w in zip(case.shown_rows, why, strict=True))
    shown = lines(replace(case, shown_rows=shown_rows), terminal(120))
    assert shown[0].endswith("why shown")
    assert shown[3].strip() == "… 5 more"
    assert shown[4].endswith("most focused")
    assert shown[5].strip() == "… 41 more"
    assert shown[7].startswith("4 of 50 rows: ")


def test_keys_without_tokens_are_named_by_index() -> None:
    shown = lines(result(random((1, 1, 3, 4))), terminal(100))
    assert re.search(r"  \d: 0\.\d\d  \d: 0\.\d\d", shown[1])


def test_items_of_a_batch_are_told_apart() -> None:
    shown = lines(result(random((2, 1, 2, 4))), terminal(100))
    assert shown[0].startswith("item  head  query")
    assert [line[:10].split() for line in shown[1:]] == [["0", "0"], [], ["1", "0"], []]


def test_a_pipe_keeps_every_column_of_long_tokens() -> None:
    tokens = ["extraordinarily" * 4, "b", "c"]
    shown = lines(result(random((1, 1, 3, 4), tokens=tokens)), pipe(100))
    assert "mean distance" in shown[0]
    assert tokens[0] in shown[1]


def test_rows_that_nobody_chose_are_not_left_out() -> None:
    case = result(random((1, 1, 50, 4), rows=(0, 7, 49)))
    chosen = {"batch": (0,), "head": (0,), "query": (0, 7, 30, 49)}
    shown = lines(replace(case, chosen=chosen, rows_total=4), terminal(100))
    assert [line.strip() for line in shown if "more" in line] == ["… 1 more"]


def test_why_a_row_is_shown_is_brief_where_there_is_no_room() -> None:
    case = result(random((2, 2, 60, 4)))
    why = "first, most focused, looks farthest"
    long = replace(case, shown_rows=tuple(replace(row, why=why) for row in case.shown_rows))
    assert any(line.endswith(why) for line in lines(long, terminal(100)))
    narrow = lines(long, terminal(80))
    assert max(map(cell_len, narrow)) <= 80
    assert any(line.endswith("first, focused, far") for line in narrow)
