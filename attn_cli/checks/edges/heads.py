"""Heads and items: one, many, shared, and as many as there are tokens."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attn_cli.checks.edges.case import Case
from attn_cli.checks.edges.making import STORED, Making, Sizes, masked, ways

GROUPS = "query head h reads key/value head h // {group} (each repeated in turn, not tiled)"


def one_head(make: Making) -> Iterator[Case]:
    """One head: the axis stays, and nothing is split."""
    asks = "with one head the output is (batch, 1, query, d_v)"
    yield from _plain(make, asks, {"heads": 1})
    yield from _masked(make, asks, {"heads": 1})
    inputs = make.question("sinks", heads=1, sinks=make.normal("sinks", "sinks", 1))
    yield make.case("sinks", asks, inputs)


def thin_heads(make: Making) -> Iterator[Case]:
    """Many heads of one or two features: each is scaled by its own width."""
    for name, sizes in ways(
        {
            "one-feature": {"heads": 16, "d_k": 1, "d_v": 1, "batch": 2},
            "two-features": {"heads": 12, "d_k": 2, "d_v": 3, "batch": 1},
            "wide-values": {"heads": 12, "d_k": 1, "d_v": 9, "batch": 2},
            "grouped": {"heads": 12, "kv_heads": 4, "d_k": 1, "d_v": 3},
            "large-scores": {"heads": 12, "d_k": 1, "d_v": 3, "size": 8.0},
        }
    ):
        asks = f"{sizes['heads']} heads of {sizes['d_k']}: the scale is 1/√{sizes['d_k']}"
        yield make.case(name, asks, make.question(name, **sizes))
    inputs = masked(make.question("causal", heads=16, d_k=1, d_v=3), "causal")
    yield make.case("causal", "16 heads of 1, each under the same mask", inputs, mask="causal")


def grouped_heads(make: Making) -> Iterator[Case]:
    """Grouped heads (GQA): consecutive query heads share a key/value head."""
    for name, (heads, kv_heads) in {
        "6-on-3": (6, 3),
        "6-on-2": (6, 2),
        "8-on-4": (8, 4),
        "9-on-3": (9, 3),
    }.items():
        asks = GROUPS.format(group=heads // kv_heads)
        more: Sizes = {"batch": 3 if kv_heads == 2 else 2, "d_k": 10, "d_v": 11}
        inputs = make.question(name, heads=heads, kv_heads=kv_heads, **more)
        yield make.case(name, asks, inputs)
    sizes: Sizes = {"heads": 6, "kv_heads": 3}
    yield from _masked(make, GROUPS.format(group=2), sizes)
    shown = np.arange(7) <= (np.arange(6) % 6)[:, None]  # head h sees keys 0 to h
    inputs = masked(make.question("mask-per-head", **sizes), STORED, shown[None, :, None])
    asks = "masks belong to query heads, also where they share keys"
    yield make.case("mask-per-head", asks, inputs, mask=STORED)
    inputs = make.question("sinks", **sizes, sinks=make.normal("sinks", "sinks", 6))
    yield make.case("sinks", "sinks belong to query heads, also where they share keys", inputs)


def one_kv_head(make: Making) -> Iterator[Case]:
    """One key/value head for all query heads (MQA)."""
    asks = "all query heads read the one key/value head"
    sizes: Sizes = {"heads": 6, "kv_heads": 1}
    yield from _plain(make, asks, sizes)
    yield from _masked(make, asks, sizes)


def one_item(make: Making) -> Iterator[Case]:
    """A batch of one: the axis stays."""
    asks = "a batch of one gives (1, head, query, d_v)"
    yield from _plain(make, asks, {"batch": 1})
    yield from _masked(make, asks, {"batch": 1})
    inputs = make.question("all-ones", batch=1, heads=1, queries=1, d_v=1, d_k=1)
    yield make.case("all-ones", "every axis but the keys is 1, and none is lost", inputs)


def equal_sizes(make: Making) -> Iterator[Case]:
    """Batch, heads, lengths and widths alike: no axis can be told by its size, and none swapped."""
    asks = "{n} items, heads, tokens and features: axes are told by place"
    for n in (2, 3, 4, 5):
        name = f"all-{n}"
        yield make.case(name, asks.format(n=n), make.question(name, **_all(n)))
    for name, text in {
        "causal": "causal",
        "window": "window(2)",
        "padding": "padding(1, 2, 3, 4)",
    }.items():
        inputs = masked(make.question(name, **_all(4)), text)
        yield make.case(name, asks.format(n=4), inputs, mask=text)
    for name, shape in {
        "file-query-key": (4, 4),
        "file-batch-query-key": (4, 4, 4),
        "file-batch-head-query-key": (4, 4, 4, 4),
    }.items():
        shown = make.normal(name, "mask", *shape) > -0.4
        inputs = masked(make.question(name, **_all(4)), STORED, shown)
        words = f"a mask of shape {shape}: {name[5:].replace('-', ', ')}"
        yield make.case(name, words, inputs, mask=STORED)
    for name, shape in {"bias-per-head": (1, 4, 4, 4), "bias-per-item": (4, 1, 4, 4)}.items():
        inputs = make.question(name, **_all(4), bias=make.normal(name, "bias", *shape))
        yield make.case(
            name, f"a bias of shape {shape} lies over (batch, head, query, key)", inputs
        )


def _all(n: int) -> Sizes:
    return dict.fromkeys(("batch", "heads", "queries", "keys", "d_k", "d_v"), n)


def _plain(make: Making, asks: str, sizes: Sizes) -> Iterator[Case]:
    each: dict[str, Sizes] = {
        "plain": {},
        "one-query": {"queries": 1},
        "one-feature": {"d_k": 1},
        "softcap": {"softcap": 3.0},
    }
    for name, more in each.items():
        yield make.case(name, asks, make.question(name, **{**sizes, **more}))


def _masked(make: Making, asks: str, sizes: Sizes) -> Iterator[Case]:
    for name, text in {"causal": "causal", "padding": "padding(4)"}.items():
        inputs = masked(make.question(name, **sizes), text)
        yield make.case(name, asks, inputs, mask=text)
