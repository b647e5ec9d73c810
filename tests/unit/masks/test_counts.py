"""Known numbers of visible pairs at 10,000 tokens, counted tile by tile."""

from __future__ import annotations

import numpy as np
import pytest

from attn_cli.core.masks import Mask, MaskContext, TileKind, evaluate
from attn_cli.masks.expression import parse


def count(mask: Mask, n: int, tile: int) -> tuple[int, int]:
    """Visible pairs among n × n, and how many tiles had to be evaluated."""
    pairs = evaluated = 0
    for q in range(0, n, tile):
        for k in range(0, n, tile):
            queries, keys = range(q, min(q + tile, n)), range(k, min(k + tile, n))
            kind = mask.tile(0, 0, queries, keys)
            if kind is TileKind.FULL:
                pairs += len(queries) * len(keys)
            elif kind is TileKind.MIXED:
                evaluated += 1
                seen = evaluate(mask, batch=1, heads=1, queries=queries, keys=keys)
                pairs += int(np.count_nonzero(seen))
    return pairs, evaluated


@pytest.mark.parametrize(
    "text, pairs",
    [
        ("none", 100_000_000),
        ("window(513, both)", 9_987_344),  # 512 each side
        ("window(257, both)", 5_064_208),  # 256 each side
        ("causal", 50_005_000),
        ("~causal", 49_995_000),
        ("window(512)", 4_989_184),
        ("causal & window(512)", 4_989_184),
        ("causal & window(512, both)", 4_989_184),
        ("dilated(512, 1)", 4_989_184),
        ("dilated(1, 7)", 10_000),
        ("sink(4)", 40_000),
        ("prefix(3)", 50_005_003),  # causal, and 2 + 1 pairs more
        ("global(0, 5000)", 39_996),  # two rows and two columns, less the four crossings
        ("block(100)", 1_000_000),
        ("documents(4000, 6000)", 52_000_000),
        ("padding(1234)", 12_340_000),
        ("random(3, seed=1)", 30_000),
        ("random(9997, seed=1)", 99_970_000),
    ],
)
def test_pairs_at_ten_thousand_tokens(text: str, pairs: int) -> None:
    mask = parse(text).build(MaskContext(batch=1, heads=1, queries=10_000, keys=10_000))
    assert count(mask, 10_000, 1_000)[0] == pairs


def test_a_window_over_long_sequences_costs_the_window() -> None:
    n = 100_000
    mask = parse("causal & (window(1000) | sink(4))").build(
        MaskContext(batch=1, heads=1, queries=n, keys=n)
    )
    pairs, evaluated = count(mask, n, 1_000)
    beyond = n - 1000  # the rows before see a window that begins with the sinks
    seen_early = 1000 * 1001 // 2
    assert pairs == seen_early + beyond * 1000 + beyond * 4 - (3 + 2 + 1)
    assert evaluated <= 3 * n // 1_000
