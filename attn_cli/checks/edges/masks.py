"""Masks: every registered one, from a file, as numbers to add, and such that hide nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.checks.edges.case import Case, Expected
from attn_cli.checks.edges.making import STORED, Making, masked
from attn_cli.core.engine import Ask
from attn_cli.core.inputs import AttentionInputs
from attn_cli.engines import ENGINES

INF = float("inf")
# One ordinary use of every mask, for 2 items, 5 queries and 7 keys with beginnings together.
ORDINARY = {
    "none": "none",
    "causal": "causal",
    "window": "window(2)",
    "window-both": "window(2, both)",
    "dilated": "dilated(2, 2)",
    "sink": "sink(3)",
    "prefix": "prefix(3)",
    "global": "causal | global(1)",
    "block": "block(3)",
    "documents": "documents(3, 4)",
    "padding": "padding(4, 6)",
    "random": "random(3, seed=1)",
    "causal-and-padding": "causal & padding(4, 2)",
    "window-or-sink": "causal & (window(2) | sink(1))",
    "not": "~window(2, both)",
}
# Masks that let 5 queries see all of 7 keys.
OPEN = {
    "none": "none",
    "wide-window": "window(9, both)",
    "causal-or-not": "causal | ~causal",
    "padding-full": "padding(7, 7)",
    "prefix-all": "prefix(7)",
    "sink-all": "sink(7)",
    "one-document": "documents(7)",
    "one-block": "block(7)",
    "random-all": "random(7)",
    "global-all": "global(0, 1, 2, 3, 4)",
}


def every_mask(make: Making) -> Iterator[Case]:
    """Each registered mask in ordinary use: the keys it shows take part, the others do not."""
    for name, text in ORDINARY.items():
        inputs = masked(make.question(name), text)
        yield make.case(name, f"the keys that {text} shows take part, no others", inputs, mask=text)


def mask_from_file(make: Making) -> Iterator[Case]:
    """Boolean masks out of a file, one for all or for each item or head: True = may attend."""
    for name, shape in {
        "query-key": (5, 7),
        "batch-query-key": (2, 5, 7),
        "batch-head-query-key": (2, 3, 5, 7),
        "one-head-for-all": (2, 1, 5, 7),
        "one-item-for-all": (1, 3, 5, 7),
        "one-row-for-all": (2, 3, 1, 7),
    }.items():
        yield _from_file(make, name, shape)
    yield _from_file(make, "grouped-heads", (2, 6, 5, 7), heads=6, kv_heads=3)
    inputs = masked(make.question("with-causal"), f"{STORED} & causal", _open_rows((5, 7)))
    words = "what both the file and causal show takes part"
    yield make.case("with-causal", words, inputs, mask=f"{STORED} & causal")


def _from_file(make: Making, name: str, shape: tuple[int, ...], **sizes: Any) -> Case:
    inputs = masked(make.question(name, **sizes), STORED, _open_rows(shape))
    asks = f"a mask of shape {shape} shows the keys where it is True"
    return make.case(name, asks, inputs, mask=STORED)


def _open_rows(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """About two in three keys shown, by a rule that no axis can be swapped under; key 0 always."""
    total = np.zeros(shape, np.int64)
    for axis, index in enumerate(np.indices(shape)):
        total += index * (2 * axis + 1) + index * index
    shown: NDArray[np.bool_] = total % 3 != 0
    shown[..., 0] = True
    return shown


def additive_mask(make: Making) -> Iterator[Case]:
    """Masks of numbers to add: −∞ hides, other numbers move the scores; every shape broadcasts."""
    hidden = "−∞ hides a key, and it gets exactly 0"
    for name, shape in {
        "all-axes": (2, 3, 5, 7),
        "one-for-all": (5, 7),
        "each-item": (2, 1, 1, 7),
        "each-head": (1, 3, 1, 7),
        "each-query": (1, 1, 5, 1),
    }.items():
        added = make.normal(name, "additive", *shape)
        asks = f"numbers of shape {shape} are added to the scaled scores"
        yield make.case(name, asks, make.question(name, additive=added), mask=f"adds {shape}")
        if name != "each-query":
            cut = np.where(_open_rows(shape), added, -INF)
            inputs = make.question(f"{name}-inf", additive=cut)
            yield make.case(f"{name}-inf", hidden, inputs, mask=f"adds {shape} with −∞")
    fill = np.where(_open_rows((5, 7)), 0.0, make.rounded(np.array(-1e9)))
    asks = "−1e9 on some keys of a row leaves them nothing"
    yield make.case("fill-1e9", asks, make.question("fill-1e9", additive=fill), mask="adds −1e9")
    cut = np.where(_open_rows((5, 7)), 0.0, -INF)
    inputs = masked(make.question("with-causal", additive=cut), "causal")
    both = "what both causal and the added −∞ leave takes part"
    yield make.case("with-causal", both, inputs, mask="causal, and adds (5, 7) with −∞")


def mask_hides_nothing(make: Making) -> Iterator[Case]:
    """Masks that hide nothing, and constants that cancel: the same as without a mask."""
    for name, text in OPEN.items():
        plain = make.question(name)
        yield _same(make, name, plain, masked(plain, text), text)
    plain = make.question("file-all-true")
    shown = np.ones((5, 7), bool)
    yield _same(make, "file-all-true", plain, masked(plain, STORED, shown), STORED)
    plain = make.question("causal-last-query", queries=1, align="lower-right")
    yield _same(make, "causal-last-query", plain, masked(plain, "causal"), "causal")
    for name, added in (("adds-zeros", 0.0), ("adds-a-constant", 2.0)):
        plain = make.question(name)
        filled = replace(plain, additive=np.full((5, 7), added))
        yield _same(make, name, plain, filled, f"adds {added:g} everywhere")


def _same(
    make: Making, name: str, plain: AttentionInputs, inputs: AttentionInputs, mask: str
) -> Case:
    """The case that `inputs` gives what `plain`, the question without the mask, gives."""
    trace = ENGINES["numpy"].run(plain, Ask(keep=frozenset({"weights", "context"})))
    words = "what comes without a mask"
    expected = Expected(words, trace["context"], trace["weights"])
    asks = "no key is hidden: the same as without a mask"
    return make.case(name, asks, inputs, mask=mask, expected=expected)
