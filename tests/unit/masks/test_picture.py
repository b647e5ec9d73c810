"""draw: one line a query, one character a key."""

from __future__ import annotations

from attn_cli.core.masks import MaskContext
from attn_cli.masks.expression import parse
from attn_cli.masks.picture import draw


def test_a_picture_has_queries_down_and_keys_across() -> None:
    mask = parse("causal & ~sink(1)").build(MaskContext(batch=1, heads=1, queries=2, keys=4))
    assert draw(mask, 2, 4) == "....\n.#.."
    assert draw(mask, range(2, 4), range(1, 4)) == "##.\n###"


def test_a_picture_is_of_one_item() -> None:
    mask = parse("padding(1, 3)").build(MaskContext(batch=2, heads=1, queries=1, keys=4))
    assert [draw(mask, 1, 4, item=item) for item in (0, 1)] == ["#...", "###."]
