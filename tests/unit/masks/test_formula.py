"""Formulas keep their meaning when they are joined: Python's precedence is not the masks'."""

from __future__ import annotations

import numpy as np
import pytest

from attn_cli.masks.formula import LONGEST_LINE, Formula, formula, inverted, joined, literal

A, B, C = formula("a == 1"), formula("b == 1"), formula("t[c]")


@pytest.mark.parametrize(
    "one, text",
    [
        (joined("&", [A, B]), "(a == 1) & (b == 1)"),
        (joined("&", [A, joined("|", [B, C])]), "(a == 1) & ((b == 1) | t[c])"),
        (joined("|", [A, joined("&", [B, C])]), "(a == 1) | ((b == 1) & t[c])"),
        (joined("&", [joined("&", [A, B]), C]), "(a == 1) & (b == 1) & t[c]"),
        (joined("&", [A, B, A]), "(a == 1) & (b == 1)"),
        (joined("&", [A]), "a == 1"),
        (inverted(A), "~(a == 1)"),
        (inverted(joined("|", [A, B])), "~((a == 1) | (b == 1))"),
        (
            joined("&", [joined("|", [inverted(A), inverted(B)]), C]),
            "(~(a == 1) | ~(b == 1)) & t[c]",
        ),
    ],
)
def test_parentheses(one: Formula, text: str) -> None:
    assert str(one) == text


def test_a_joined_formula_means_what_its_parts_mean() -> None:
    one = joined("&", [joined("|", [inverted(A), joined("&", [B, A])]), inverted(inverted(B))])
    a, b = np.array([[0, 0, 1, 1], [0, 1, 0, 1]])
    expected = np.array([False, True, False, True])  # (not a or b and a) and not not b
    np.testing.assert_array_equal(eval(str(one), {"a": a, "b": b}), expected)


def test_setup_is_kept_once_and_in_order() -> None:
    first = formula("x", setup=["x = 1"])
    second = formula("y", setup=["x = 1", "y = 2"])
    assert joined("|", [first, second]).setup == ("x = 1", "y = 2")


def test_a_long_formula_is_broken_at_its_operator() -> None:
    parts = [f"query_position_{i} == {i}" for i in range(5)]
    lines = formula(*parts).assigned("mask =")
    assert lines[0] == "mask = ("
    assert lines[1] == "    (query_position_0 == 0)"
    assert lines[2] == "    & (query_position_1 == 1)"
    assert lines[-1] == ")"


def test_names_are_whole_words() -> None:
    assert formula("kv_idx < lengths[b]").uses("b")
    assert not formula("table[kv_idx] < 2").uses("b")


def test_a_long_literal_is_broken_and_still_the_same_list() -> None:
    numbers = list(range(1000, 1200))
    text = literal(numbers, "x = list(", ")")
    assert max(map(len, text.splitlines())) <= LONGEST_LINE
    scope: dict[str, object] = {}
    exec(text, scope)
    assert scope["x"] == numbers
