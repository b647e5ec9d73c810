"""Known masks are recognised, with the mistake that was made; unknown ones are not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attn_cli.core.masks import MaskContext, evaluate
from attn_cli.masks import MASKS
from attn_cli.masks.expression import parse
from attn_cli.recognize.known_masks import known_masks, offset_of
from attn_cli.recognize.mask_families import Seen

Q, K = np.arange(8)[:, np.newaxis], np.arange(8)
INVERTED = "with True = hidden (the polarity of nn.MultiheadAttention)"
DOCUMENT = np.array([0, 0, 0, 1, 1, 2, 2, 2])

AS_THEY_ARE: dict[str, Seen] = {
    "none": np.ones((8, 8), np.bool_),
    "causal": np.tril(np.ones((8, 8), np.bool_)),
    "window(1)": np.eye(8, dtype=np.bool_),
    "window(3)": (K <= Q) & (K > Q - 3),
    "window(7)": (K <= Q) & (K > Q - 7),
    "window(3, both)": abs(Q - K) < 3,
    "dilated(3, 2)": (Q - K >= 0) & (Q - K < 6) & ((Q - K) % 2 == 0),
    "prefix(3)": (K < 3) | (K <= Q),
    "block(3)": Q // 3 == K // 3,
    "documents(3, 2, 3)": DOCUMENT[Q] == DOCUMENT[K],
    "causal & documents(3, 2, 3)": (DOCUMENT[Q] == DOCUMENT[K]) & (K <= Q),
    "causal & block(3)": (Q // 3 == K // 3) & (K <= Q),
    "padding(5)": np.broadcast_to(K < 5, (8, 8)),
    "~sink(5)": np.broadcast_to(K >= 5, (8, 8)),
    "causal & padding(5)": (K <= Q) & (K < 5),
    "window(3) & padding(6)": (K <= Q) & (K > Q - 3) & (K < 6),
    "causal & ~sink(2)": (K <= Q) & (K >= 2),
    "causal & (window(3) | sink(2))": (K <= Q) & ((K > Q - 3) | (K < 2)),
    "window(3) | sink(2)": ((K <= Q) & (K > Q - 3)) | (K < 2),
    "global(3)": (Q == 3) | (K == 3),
    "window(2, both) | global(0)": (abs(Q - K) < 2) | (Q == 0) | (K == 0),
}


@pytest.mark.parametrize("text", AS_THEY_ARE)
def test_a_mask_as_it_stands(text: str) -> None:
    first = known_masks(AS_THEY_ARE[text], additive=False)[0]
    assert first.expression == text
    assert first.as_it_stands


CHANGED: dict[str, tuple[Seen, list[str]]] = {
    "strictly lower": (
        np.tril(np.ones((8, 8)), -1) > 0,
        ["causal, off by one: no query sees itself"],
    ),
    "one too many": (
        np.tril(np.ones((8, 8)), 1) > 0,
        ["causal, off by one: every query sees the next key"],
    ),
    "far too many": (
        np.tril(np.ones((8, 8)), 3) > 0,
        ["causal, off by 3: every query sees 3 later keys"],
    ),
    "window without itself": (
        (K < Q) & (K >= Q - 3),
        ["window(3), off by one: no query sees itself"],
    ),
    "inverted": (
        np.triu(np.ones((8, 8)), 1) > 0,
        [f"causal {INVERTED}"],
    ),
    "inverted window": (
        ~((K <= Q) & (K > Q - 3)),
        [f"window(3) {INVERTED}"],
    ),
    "triu without its diagonal": (
        np.triu(np.ones((8, 8))) > 0,
        [
            "causal with queries and keys exchanged",
            f"causal {INVERTED}, off by one: no query sees itself",
        ],
    ),
    "nothing is True": (
        np.zeros((8, 8), np.bool_),
        [f"a mask that hides nothing {INVERTED}"],
    ),
    "lower-right": (np.tril(np.ones((4, 9)), 5) > 0, ["causal, lower-right"]),
    "upper-left": (np.tril(np.ones((4, 9))) > 0, ["causal, upper-left"]),
    "more queries than keys": (np.tril(np.ones((9, 4)), -5) > 0, ["causal, lower-right"]),
    "lower-right, one too few": (
        np.tril(np.ones((4, 9)), 4) > 0,
        ["causal, lower-right, off by one: no query sees itself"],
    ),
    "window, lower-right": (
        np.tril(np.ones((4, 9)), 5) - np.tril(np.ones((4, 9)), 2) > 0,
        ["window(3), lower-right"],
    ),
    "neither": (np.random.default_rng(0).random((8, 8)) < 0.5, []),
    "one hole": (AS_THEY_ARE["causal"] & ~((Q == 5) & (K == 2)), []),
    "far behind": ((K <= Q - 2) & (K > Q - 6), []),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_has_gone_wrong_is_named(name: str) -> None:
    seen, words = CHANGED[name]
    assert [match.words for match in known_masks(seen, additive=False)] == words


def test_polarity_of_numbers_to_add_has_words_of_its_own() -> None:
    (match,) = known_masks(np.triu(np.ones((6, 6)), 1) > 0, additive=True)
    assert match.words == "causal the wrong way round, hiding what it should show"
    assert known_masks(np.zeros((6, 6), np.bool_), additive=True) == ()


@pytest.mark.parametrize(
    "text, n",
    [
        ("none", 8),
        ("causal", 12),
        ("window(4)", 12),
        ("dilated(3, 3)", 12),
        ("sink(4)", 12),
        ("prefix(4)", 12),
        ("global(2, 7)", 12),
        ("block(4)", 12),
        ("documents(5, 3, 4)", 12),
        ("padding(7)", 12),
        ("random(3, seed=11)", 12),
    ],
)
def test_every_mask_of_positions_is_recognised(text: str, n: int) -> None:
    seen = evaluated(text, n, n, 0)
    matches = known_masks(seen, additive=False)
    assert matches
    assert matches[0].as_it_stands
    np.testing.assert_array_equal(evaluated(matches[0].expression, n, n, 0), seen)


def test_no_mask_is_forgotten_above() -> None:
    marks = test_every_mask_of_positions_is_recognised.pytestmark  # type: ignore[attr-defined]
    tried = {name for text, _ in marks[0].args[1] for name in parse(text).names_used()}
    assert tried == set(MASKS) - {"file"}


def evaluated(text: str, queries: int, keys: int, offset: int) -> Seen:
    mask = parse(text).build(MaskContext(1, 1, queries, keys, offset))
    rows = range(offset, offset + queries)
    seen = evaluate(mask, batch=1, heads=1, queries=rows, keys=range(keys))
    return np.asarray(seen[0, 0])


@settings(max_examples=150)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**36 - 1))
def test_what_is_said_is_true(queries: int, keys: int, bits: int) -> None:
    pairs = queries * keys
    seen = np.array([bits >> i & 1 for i in range(pairs)], np.bool_).reshape(queries, keys)
    for match in known_masks(seen, additive=False):
        array = seen.T if match.swapped else seen
        array = ~array if match.polarity == "hidden" else array
        rows, columns = array.shape
        offset = offset_of(match.align, rows, columns)
        if match.align is None and rows != columns:
            assert not parse(match.expression).compares_positions
        again = evaluated(match.expression, rows, columns, offset + match.shift)
        np.testing.assert_array_equal(again, array)
