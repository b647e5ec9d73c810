"""The masks that are functions of positions, against their definitions pair by pair."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from attn_cli.core.masks import MaskContext, TileKind, evaluate
from attn_cli.errors import InputError
from attn_cli.masks.expression import parse

Sees = Callable[[int, int], bool]

DEFINITIONS: dict[str, Sees] = {
    "none": lambda q, k: True,
    "causal": lambda q, k: k <= q,
    "window(1)": lambda q, k: k == q,
    "window(3)": lambda q, k: k in (q - 2, q - 1, q),
    "window(3, both)": lambda q, k: k in (q - 2, q - 1, q, q + 1, q + 2),
    "dilated(3, 1)": lambda q, k: k in (q - 2, q - 1, q),
    "dilated(3, 2)": lambda q, k: k in (q, q - 2, q - 4),
    "sink(0)": lambda q, k: False,
    "sink(2)": lambda q, k: k in (0, 1),
    "prefix(3)": lambda q, k: k in (0, 1, 2) or k <= q,
    "global(5, 0)": lambda q, k: q in (0, 5) or k in (0, 5),
    "block(3)": lambda q, k: q >= 0 and q - q % 3 == k - k % 3,
    "documents(3, 1, 4)": lambda q, k: any(
        q in document and k in document for document in ({0, 1, 2}, {3}, {4, 5, 6, 7})
    ),
    "window(2000000000, both)": lambda q, k: True,
    "dilated(2000000000, 2000000000)": lambda q, k: q == k,
}  # fmt: skip


@pytest.mark.parametrize("offset", [-3, 0, 5])
@pytest.mark.parametrize("text", DEFINITIONS)
def test_a_mask_is_what_its_definition_says(text: str, offset: int) -> None:
    context = MaskContext(batch=2, heads=3, queries=9, keys=8, q_offset=offset)
    queries = range(offset, offset + 9)
    sees = DEFINITIONS[text]
    expected = [[sees(q, k) for k in range(8)] for q in queries]
    seen = evaluate(parse(text).build(context), batch=2, heads=3, queries=queries, keys=range(8))
    np.testing.assert_array_equal(seen, np.broadcast_to(expected, (2, 3, 9, 8)))


@pytest.mark.parametrize("text", [text for text in DEFINITIONS if "dilated" not in text])
def test_a_tile_of_one_pair_is_never_mixed(text: str) -> None:
    mask = parse(text).build(MaskContext(batch=1, heads=1, queries=9, keys=8))
    for q in range(9):
        for k in range(8):
            kind = TileKind.FULL if DEFINITIONS[text](q, k) else TileKind.EMPTY
            assert mask.tile(0, 0, range(q, q + 1), range(k, k + 1)) is kind


@pytest.mark.parametrize(
    "text, queries, keys, kind",
    [
        ("causal", range(4, 8), range(5), TileKind.FULL),
        ("causal", range(4, 8), range(6), TileKind.MIXED),
        ("causal", range(4, 8), range(8, 9), TileKind.EMPTY),
        ("window(4)", range(4, 6), range(2, 5), TileKind.FULL),
        ("window(4)", range(4, 6), range(1), TileKind.EMPTY),
        ("window(4, both)", range(2), range(5), TileKind.MIXED),
        ("window(4, both)", range(2), range(1, 4), TileKind.FULL),
        ("dilated(3, 4)", range(5, 6), range(2, 5), TileKind.EMPTY),  # between two steps
        ("dilated(3, 4)", range(5, 6), range(1, 2), TileKind.FULL),
        ("dilated(3, 4)", range(20, 24), range(12), TileKind.EMPTY),  # beyond the last step
        ("prefix(6)", range(2), range(2, 6), TileKind.FULL),
        ("global(3)", range(3, 4), range(9), TileKind.FULL),
        ("global(3, 4)", range(9), range(3, 5), TileKind.FULL),
        ("global(3)", range(4, 9), range(4, 9), TileKind.EMPTY),
        ("block(4)", range(4, 8), range(4, 8), TileKind.FULL),
        ("block(4)", range(4, 8), range(4), TileKind.EMPTY),
        ("documents(20, 4)", range(20, 24), range(20, 24), TileKind.FULL),
        ("documents(20, 4)", range(20, 24), range(20), TileKind.EMPTY),
        ("documents(20, 4)", range(24, 30), range(20, 24), TileKind.EMPTY),
    ],
)
def test_tiles_are_sharp(text: str, queries: range, keys: range, kind: TileKind) -> None:
    mask = parse(text).build(MaskContext(batch=1, heads=1, queries=24, keys=24))
    assert mask.tile(0, 0, queries, keys) is kind


def test_documents_must_add_up_to_the_keys() -> None:
    with pytest.raises(InputError, match="add up to 6, and there are 7 keys"):
        parse("documents(4, 2)").build(MaskContext(batch=1, heads=1, queries=7, keys=7))


def test_a_global_token_must_exist_as_key_or_query() -> None:
    decoding = MaskContext(batch=1, heads=1, queries=2, keys=4, q_offset=8)
    parse("global(3, 9)").build(decoding)
    with pytest.raises(InputError, match=r"global\(4\).*keys are 0 to 3.*stand at 8 to 9"):
        parse("global(4)").build(decoding)
