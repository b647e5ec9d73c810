"""padding: lengths as written, or those of the file."""

from __future__ import annotations

import numpy as np
import pytest

from attn_cli.core.masks import MaskContext, TileKind, evaluate
from attn_cli.errors import InputError
from attn_cli.masks.expression import parse


def context(batch: int = 2, lengths: tuple[int, ...] | None = None) -> MaskContext:
    return MaskContext(batch=batch, heads=2, queries=3, keys=4, lengths=lengths)


@pytest.mark.parametrize(
    "text, lengths, visible",
    [
        ("padding(3, 1)", None, [3, 1]),
        ("padding(4, 0)", None, [4, 0]),
        ("padding(2)", None, [2, 2]),
        ("padding", (3, 1), [3, 1]),
        ("padding(2, 2)", (3, 1), [2, 2]),  # what is written counts
    ],
)
def test_the_first_keys_of_each_item_are_visible(
    text: str, lengths: tuple[int, ...] | None, visible: list[int]
) -> None:
    mask = parse(text).build(context(lengths=lengths))
    seen = evaluate(mask, batch=2, heads=2, queries=range(3), keys=range(4))
    for item, length in enumerate(visible):
        row = [True] * length + [False] * (4 - length)
        np.testing.assert_array_equal(seen[item], np.broadcast_to(row, (2, 3, 4)))


def test_a_tile_knows_its_item() -> None:
    mask = parse("padding(3, 1)").build(context())
    kinds = [mask.tile(b, 0, range(3), keys) for b in (0, 1) for keys in (range(1), range(1, 4))]
    assert kinds == [TileKind.FULL, TileKind.MIXED, TileKind.FULL, TileKind.EMPTY]


@pytest.mark.parametrize(
    "text, lengths, message",
    [
        ("padding", None, "it has none"),
        ("padding(1, 2, 3)", None, "3 lengths, and the batch has 2 items"),
        ("padding", (1, 2, 3), "3 lengths, and the batch has 2 items"),
        ("padding(5, 1)", None, "length of 5, and there are 4 keys"),
        ("padding", (3, -1), "length of -1"),
    ],
)
def test_lengths_that_do_not_fit(text: str, lengths: tuple[int, ...] | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse(text).build(context(lengths=lengths))
