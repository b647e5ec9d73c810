"""Selection: indices are checked against the run, sorted, and never repeated."""

from __future__ import annotations

import numpy as np
import pytest

from attn_cli.core.trace import Stage
from attn_cli.errors import InputError
from attn_cli.workflows.selection import PAIRS_SHOWN, narrowed, select
from tests.agreement.samples import drawn

INPUTS = drawn(1, batch=3, heads=4, queries=6)


def test_nothing_chosen_is_everything_and_a_few_pairs_are_drawn() -> None:
    all_ = select(INPUTS, items=None, heads=None, queries=None)
    assert (all_.items, all_.heads, all_.queries) == ((0, 1, 2), (0, 1, 2, 3), tuple(range(6)))
    assert all_.pairs == tuple((b, h) for b in range(3) for h in range(4))
    assert all_.drawn == all_.pairs[:PAIRS_SHOWN]


def test_what_is_named_is_all_drawn_sorted_and_once() -> None:
    chosen = select(INPUTS, items=None, heads=(3, 0, 3), queries=(5, 1))
    assert chosen.heads == (0, 3)
    assert chosen.queries == (1, 5)
    assert chosen.drawn == ((0, 0), (0, 3), (1, 0), (1, 3), (2, 0), (2, 3))
    assert chosen.axes == {"batch": (0, 1, 2), "head": (0, 3), "query": (1, 5)}


@pytest.mark.parametrize(
    "option, wanted, words",
    [
        ("items", (3,), "there is no item 3: this run has 3 .give --item a number from 0 to 2"),
        ("heads", (0, -1), "there is no head -1: this run has 4 .give --head"),
        ("queries", (6,), "there is no query 6: this run has 6 .give --query"),
    ],
)
def test_an_index_that_is_not_there(option: str, wanted: tuple[int, ...], words: str) -> None:
    nothing: dict[str, tuple[int, ...] | None] = {"items": None, "heads": None, "queries": None}
    with pytest.raises(InputError, match=words):
        select(INPUTS, **{**nothing, option: wanted})


def test_keys_are_narrowed_to_the_items_and_keep_their_heads() -> None:
    chosen = {"batch": (2,), "head": (1,), "query": (0, 3)}
    k = Stage(np.zeros((3, 2, 6, 4)), ("batch", "head", "key", "d_k"), "float64")
    q = Stage(np.zeros((3, 4, 6, 4)), ("batch", "head", "query", "d_k"), "float64")
    assert narrowed(k, chosen).array.shape == (1, 2, 6, 4)
    assert narrowed(q, chosen).array.shape == (1, 1, 2, 4)
