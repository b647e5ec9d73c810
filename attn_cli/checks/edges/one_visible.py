"""Rows that see one key: its weight is 1, and its value comes out to the last bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from attn_cli.checks.edges.case import Case
from attn_cli.checks.edges.closed import only
from attn_cli.checks.edges.making import STORED, Making, masked, ways

ASKS = "a row that sees one key gives exactly its value"
TEXTS = {
    "window": "window(1)",
    "window-both": "window(1, both)",
    "sink": "sink(1)",
    "padding": "padding(1, 1)",
    "block": "block(1)",
    "documents": "documents(1, 1, 1, 1, 1, 1, 1)",
    "random": "random(1)",
    "dilated": "dilated(1, 3)",
    "causal-and-sink": "causal & sink(1)",
}


def one_visible_key(make: Making) -> Iterator[Case]:
    """Rows that see one key: its weight is 1, and its value comes out to the last bit."""
    for name, text in TEXTS.items():
        inputs = masked(make.question(name), text)
        yield make.case(name, ASKS, inputs, mask=text, expected=only(inputs))
    for name, sizes in ways(
        {
            "file": {},
            "grouped-heads": {"heads": 6, "kv_heads": 3},
            "large-scores": {"size": 30.0},
            "softcap": {"softcap": 2.0},
            "equal-lengths": {"queries": 7},
        }
    ):
        plain = make.question(name, **sizes)
        inputs = masked(plain, STORED, _one_each(plain.shape))
        yield make.case(name, ASKS, inputs, mask=STORED, expected=only(inputs))
    shape = make.question("additive").shape
    cut = np.where(_one_each(shape), 0.0, -np.inf)
    inputs = make.question("additive", additive=cut)
    yield make.case("additive", ASKS, inputs, mask="adds −∞ elsewhere", expected=only(inputs))
    inputs = masked(make.question("last-key"), "~sink(6)")
    words = "every row sees the last key alone, and gives exactly its value"
    yield make.case("last-key", words, inputs, mask="~sink(6)", expected=only(inputs))


def _one_each(shape: tuple[int, int, int, int]) -> NDArray[np.bool_]:
    """True at one key of each row, another one in each item, head and query."""
    b, h, q = np.indices(shape[:3])
    each: NDArray[np.bool_] = (
        np.arange(shape[3]) == ((3 * b + 2 * h + 5 * q + 1) % shape[3])[..., None]
    )
    return each
