"""The weights as numbers: what each width shows of them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len

from attn_cli.core.results import RunResult
from attn_cli.render.terminal.cells import WRITINGS, Writing, cell_table
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.names import names
from tests.unit.render.example import apple, random, result
from tests.unit.render.screens import drawn, pipe, terminal

SENTENCE = ("The", "cat", "sat", "on", "the", "mat", "because", "it", "was", "the", "best")


def lines(shown: RunResult, screen: Screen) -> list[str]:
    table = cell_table(shown.views[0], shown.sum_tolerance, names(shown, screen))
    assert table is not None
    return drawn(table[1], screen)


def test_numbers_sums_and_hidden_keys() -> None:
    assert lines(result(apple()), terminal(80)) == [
        "query ╲ key    我  喜欢  苹果         Σ",
        "我          1.000     ·     ·  1.000000",
        "喜欢        0.006 0.994     ·  1.000000",
        "苹果        0.133 0.570 0.297  1.000000",
    ]


def test_a_row_that_sees_nothing_is_marked() -> None:
    visible = np.array([[True, False, False], [False] * 3, [True] * 3])
    shown = lines(result(apple(visible=visible)), terminal(80))
    assert shown[2] == "喜欢            ·     ·     ·  ! 0.000000"
    assert shown[1].endswith("    1.000000")


def test_a_sum_within_the_tolerance_is_not_marked() -> None:
    case = result(apple())
    sums = np.array([1.0, 0.998, 1.0])
    rounded = replace(case, views=(replace(case.views[0], sums=sums),))
    assert lines(rounded, terminal(80))[2].endswith("  ! 0.998000")
    assert lines(replace(rounded, sum_tolerance=0.01), terminal(80))[2].endswith("  0.998000")


def test_nan_is_shown_as_nan() -> None:
    case = result(apple())
    cells = np.where(np.eye(3, dtype=bool), np.nan, case.views[0].cells)
    broken = replace(case.views[0], cells=cells, sums=np.full(3, np.nan))
    shown = lines(replace(case, views=(broken,)), terminal(80))
    assert shown[1].split() == ["我", "NaN", "·", "·", "!", "NaN"]


@pytest.mark.parametrize(
    "weight, shown",
    [
        (0.12345, ("0.123", ".123", ".12", ".12", "12")),
        (1.0, ("1.000", "1.00", "1.0", "1.0", "100")),
        (0.9996, ("1.000", "1.00", "1.0", "1.0", "100")),
        (0.0, ("0.000", ".000", ".00", ".00", "0")),
    ],
)
def test_a_weight_in_each_writing(weight: float, shown: tuple[str, ...]) -> None:
    assert tuple(writing(weight) for writing in WRITINGS) == shown


@pytest.mark.parametrize("writing", WRITINGS)
def test_a_weight_fits_its_cell(writing: Writing) -> None:
    weights = np.random.default_rng(0).random(1000)
    space = 1 if writing.digits else 0  # a whole 100 % takes all of its cell
    assert max(len(writing(weight)) for weight in [1.0, *weights]) <= writing.width - space


@pytest.mark.parametrize("width", range(46, 140, 3))
def test_no_width_is_exceeded_and_no_number_is_cut(width: int) -> None:
    case = result(random((1, 1, 11, 4), tokens=SENTENCE))
    for line in lines(case, terminal(width)):
        assert cell_len(line) <= width
        assert not re.search(r"\d…|…\d", line)


def test_repeated_tokens_are_told_apart() -> None:
    head = lines(result(random((1, 1, 11, 4), tokens=SENTENCE)), terminal(120))[0]
    assert " ".join(head.split()) == (
        "query ╲ key The cat sat on the₄ mat because it was the₉ best Σ"
    )


def test_where_tokens_do_not_fit_their_indices_do() -> None:
    long = [f"extraordinary{i}" for i in range(8)]
    shown = lines(result(random((1, 1, 8, 4), tokens=long)), terminal(80))
    assert " ".join(shown[0].split()) == "query ╲ key 0 1 2 3 4 5 6 7 Σ"
    assert shown[3].startswith("2 extraordinary2 ")


def test_keys_of_another_sequence_are_listed_below_their_indices() -> None:
    keys = [f"extraordinaire{i}" for i in range(8)]
    case = random((1, 1, 3, 4), keys=8, tokens=("a", "b", "c"), key_tokens=keys)
    shown = lines(result(case), terminal(70))
    assert " ".join(shown[4:]).split() == [
        "keys",
        *(w for i in range(8) for w in (str(i), keys[i])),
    ]


def test_a_pipe_cuts_no_token() -> None:
    long = [f"extraordinary{i}" * 3 for i in range(8)]
    shown = lines(result(random((1, 1, 8, 4), tokens=long)), pipe(80))
    assert shown[0].split()[3:] == [*long, "Σ"]


def test_not_even_percentages_fit() -> None:
    case = result(random((1, 1, 24, 4)))
    assert cell_table(case.views[0], 1e-6, names(case, terminal(60))) is None


def test_percentages_are_said() -> None:
    case = result(random((1, 1, 24, 4)))
    table = cell_table(case.views[0], 1e-6, names(case, terminal(80)))
    assert table is not None
    assert table[0].strip() == "weights in %"
