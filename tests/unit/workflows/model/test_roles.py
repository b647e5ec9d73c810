"""What a head does, by rows that are written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attn_cli.core.model_heads import MEANS, ROLES, Role
from attn_cli.workflows.model.roles import beyond_chance, role_of, same_as

Array = NDArray[Any]
ROWS = 6


def head(given: Mapping[str, float], *, same: bool = False) -> Role | None:
    """The role of a head whose rows all see 4 keys; `given` names weights, means otherwise."""
    names = ("first_key_weight", "previous_weight", "next_weight", "self_weight")
    rows: dict[str, Array] = {
        name: np.full((1, ROWS), given.get(name, 0.1), np.float64) for name in names
    }
    rows["visible_keys"] = np.full((1, ROWS), 4.0)
    means = {**dict.fromkeys(MEANS, 0.0), "normalized_entropy": 0.5, "nearness": 0.9, **given}
    choice = {name: np.ones((1, ROWS), bool) for name in ("all", *names)}
    return role_of(rows, choice, means, same)


@pytest.mark.parametrize(
    "weights, role",
    [
        ({"previous_weight": 0.63}, "previous"),  # (0.63 − ¼) / (1 − ¼) = 0.507
        ({"previous_weight": 0.62}, None),  # 0.493
        ({"next_weight": 0.9}, "next"),
        ({"self_weight": 0.9}, "self"),
        ({"first_key_weight": 0.9}, "sink"),
        ({"nearness": 0.33}, "local"),
        ({"nearness": 0.34}, None),
        ({"normalized_entropy": 0.95}, "uniform"),
        ({"normalized_entropy": 0.94}, None),
        ({"nearness": 0.1, "first_key_weight": 0.9}, "sink"),  # the first that holds
    ],
)
def test_the_rules(weights: dict[str, float], role: Role | None) -> None:
    assert head(weights) == role


def test_a_head_like_another_is_said_before_what_it_does_and_after_uniform() -> None:
    assert head({"previous_weight": 0.9}, same=True) == "same"
    assert head({"normalized_entropy": 0.99}, same=True) == "uniform"


def test_chance_is_what_the_visible_keys_give() -> None:
    visible = np.array([[2.0, 4.0, 8.0]])
    rows = np.ones((1, 3), bool)
    chance = (1 / 2 + 1 / 4 + 1 / 8) / 3
    assert beyond_chance(1 / visible, visible, rows) == pytest.approx(0.0, abs=1e-12)
    assert beyond_chance(np.ones((1, 3)), visible, rows) == pytest.approx(1.0)
    assert beyond_chance(np.full((1, 3), 0.5), visible, rows) == pytest.approx(
        (0.5 - chance) / (1 - chance)
    )


def test_too_few_rows_say_nothing() -> None:
    visible = np.array([[1.0, 2.0, 2.0]])
    rows = np.array([[False, True, True]])
    assert np.isnan(beyond_chance(np.ones((1, 3)), visible, rows))


def test_same_as_names_the_first_head_that_agrees_in_every_live_row() -> None:
    values = np.array([[0.1, 0.2, 0.3, 9.0], [0.4, 0.5, 0.6, 9.0], [0.1, 0.2, 0.3, 7.0]])
    statistics = {"entropy": values[None], "max_weight": values[None] ** 2}
    live = np.ones((1, 3, 4), bool)
    live[..., 3] = False  # padding, where they differ
    assert same_as(statistics, live) == [None, None, 0]
    live[..., 3] = True
    assert same_as(statistics, live) == [None, None, None]


def test_every_role_has_a_letter_of_its_own() -> None:
    letters = [letter for letter, _ in ROLES.values()]
    assert len(set(letters)) == len(letters)
    assert all(len(letter) == 1 for letter in letters)
