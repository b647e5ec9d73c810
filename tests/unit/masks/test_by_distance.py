"""Counting by distance: what evaluating every pair gives, and which masks allow it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from attn_cli.core.masks import MaskContext, evaluate
from attn_cli.masks import MASKS
from attn_cli.masks.counting import Allowance, TooMuch, total_by_distance
from attn_cli.masks.expression import parse

EXPRESSIONS = (
    "none", "causal", "~causal", "window(3)", "window(4, both)", "dilated(2, 3)",
    "causal & window(3)", "~window(2) | dilated(3, 2)", "causal & ~dilated(2, 2)",
)  # fmt: skip
SIZES = ((6, 6, 0), (1, 9, 8), (9, 1, 0), (4, 7, 3), (7, 4, -3), (5, 8, 0))


@pytest.mark.parametrize("text, sizes", [*itertools.product(EXPRESSIONS, SIZES)])
def test_the_count_is_that_of_every_pair(text: str, sizes: tuple[int, int, int]) -> None:
    queries, keys, offset = sizes
    built = parse(text).build(MaskContext(1, 1, queries, keys, offset))
    rows = range(offset, offset + queries)
    expected = evaluate(built, batch=1, heads=1, queries=rows, keys=range(keys)).sum()
    allowance = Allowance()
    found = total_by_distance(
        built, queries=queries, keys=keys, q_offset=offset, allowance=allowance
    )
    assert found == expected


def test_long_ones_are_counted_in_pieces() -> None:
    n = 3_000_000
    built = parse("causal").build(MaskContext(1, 1, n, n))
    found = total_by_distance(built, queries=n, keys=n, q_offset=0, allowance=Allowance())
    assert found == n * (n + 1) // 2


def test_too_long_ones_are_not_counted() -> None:
    n = 100_000_000
    built = parse("causal").build(MaskContext(1, 1, n, n))
    with pytest.raises(TooMuch):
        total_by_distance(built, queries=n, keys=n, q_offset=0, allowance=Allowance())


@pytest.mark.parametrize("name", [name for name in MASKS if MASKS[name].by_distance])
def test_masks_that_say_so_depend_on_the_distance_alone(name: str) -> None:
    arguments = {"window": "(3)", "dilated": "(2, 3)"}.get(name, "")
    built = parse(f"{name}{arguments}").build(MaskContext(2, 2, 40, 40))
    seen = evaluate(built, batch=2, heads=2, queries=range(40), keys=range(40))
    for distance in range(-39, 40):
        diagonal = np.diagonal(seen, distance, axis1=2, axis2=3)
        assert diagonal.all() or not diagonal.any()


@pytest.mark.parametrize("text", ["sink(2)", "prefix(2)", "block(3)", "global(1)", "random(2)"])
def test_others_do_not_say_so(text: str) -> None:
    built = parse(text).build(MaskContext(1, 1, 12, 12))
    seen = evaluate(built, batch=1, heads=1, queries=range(12), keys=range(12))[0, 0]
    diagonals = [np.diagonal(seen, distance) for distance in range(-11, 12)]
    assert any(each.any() and not each.all() for each in diagonals)
    assert not MASKS[text.partition("(")[0]].by_distance
