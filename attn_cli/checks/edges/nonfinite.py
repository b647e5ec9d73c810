"""NaN and inf: of no effect where hidden, shown where seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from attn_cli.checks.edges.case import Case
from attn_cli.checks.edges.making import STORED, Making, masked, put
from attn_cli.core.inputs import AttentionInputs

NAN, INF = float("nan"), float("inf")
HIDDEN = "what stands in a hidden {what} takes no part: 0 · NaN is not formed"
LATER = "{what} {value} at key 3 touches the rows that see key 3 and no others"


def nan_in_hidden_key(make: Making) -> Iterator[Case]:
    """NaN in a key that is hidden: it takes no part."""
    yield from _hidden(make, "k", NAN)


def nan_in_hidden_value(make: Making) -> Iterator[Case]:
    """NaN in a value whose key is hidden: it takes no part."""
    yield from _hidden(make, "v", NAN)


def inf_in_hidden(make: Making) -> Iterator[Case]:
    """±inf in a hidden key or value: it takes no part."""
    for what, value, name in (
        ("k", INF, "key"),
        ("k", -INF, "key-negative"),
        ("v", INF, "value"),
        ("v", -INF, "value-negative"),
    ):
        asks = HIDDEN.format(what="key" if what == "k" else "value")
        yield _padded(make, f"{name}-padding", what, value, asks)
    for what, value in (("k", INF), ("v", -INF)):
        name = f"{what}-causal"
        inputs = put(make.question(name, queries=6), what, (0, 1, 3, 2), value)
        asks = LATER.format(what=what, value=f"{value:g}")
        yield make.case(name, asks, masked(inputs, "causal"), mask="causal")


def nonfinite_visible(make: Making) -> Iterator[Case]:
    """NaN and inf that a row sees: they come out as the formula has it, never as 0."""
    for name, what, where, value, asks in (
        (
            "nan-key",
            "k",
            (0, 1, 3, 2),
            NAN,
            "a NaN in a visible key makes every row of its head NaN",
        ),
        ("nan-value", "v", (0, 1, 3, 2), NAN, "a NaN in a visible value reaches its feature alone"),
        ("nan-query", "q", (1, 2, 4, 0), NAN, "a NaN in a query makes its row NaN and no other"),
        ("inf-value", "v", (0, 1, 3, 2), INF, "inf in a visible value gives inf in its feature"),
        ("minus-inf-value", "v", (0, 1, 3, 2), -INF, "−inf in a visible value gives −inf there"),
    ):
        yield make.case(name, asks, put(make.question(name), what, where, value))
    inputs = put(make.question("inf-and-minus-inf"), "v", (0, 1, 3, 2), INF)
    inputs = put(inputs, "v", (0, 1, 5, 2), -INF)
    yield make.case("inf-and-minus-inf", "inf and −inf in one feature give NaN", inputs)
    inputs = make.question("inf-score")
    inputs = replace(inputs, q=np.abs(inputs.q))
    inputs = put(inputs, "k", (0, 1, 3, 2), INF)
    yield make.case("inf-score", "a score of +inf makes its row NaN (inf − inf)", inputs)
    yield make.case(
        "minus-inf-score",
        "a score of −inf gives its key weight 0; the others share",
        put(replace(make.question("minus-inf-score"), q=inputs.q), "k", (0, 1, 3, 2), -INF),
    )
    name = "nan-value-causal"
    inputs = put(make.question(name, queries=6), "v", (0, 1, 3, 2), NAN)
    asks = LATER.format(what="v", value="NaN")
    yield make.case(name, asks, masked(inputs, "causal"), mask="causal")


def _hidden(make: Making, what: str, value: float) -> Iterator[Case]:
    asks = HIDDEN.format(what="key" if what == "k" else "value")
    yield _padded(make, "padding", what, value, asks)
    yield _padded(make, "padding-grouped-heads", what, value, asks, heads=6, kv_heads=3)
    yield _padded(make, "padding-softcap", what, value, asks, softcap=2.0)
    yield _padded(make, "padding-one-value-feature", what, value, asks, d_v=1)
    inputs = put(make.question("whole-key"), what, (0, slice(None), 5), value)
    yield make.case("whole-key", asks, masked(inputs, "padding(4)"), mask="padding(4)")
    inputs = put(make.question("causal", queries=6), what, (0, 1, 3, 0), value)
    words = LATER.format(what=what, value="NaN")
    yield make.case("causal", words, masked(inputs, "causal"), mask="causal")
    shown = np.ones((2, 3, 5, 7), bool)
    shown[0, 1, :, 2] = False
    inputs = put(make.question("one-head"), what, (0, 1, 2, 0), value)
    yield make.case("one-head", asks, masked(inputs, STORED, shown), mask=STORED)
    cut = np.where(np.arange(7) == 6, -INF, 0.0)[None]
    inputs = put(
        make.question("additive", additive=cut), what, (slice(None), slice(None), 6), value
    )
    yield make.case("additive", asks, inputs, mask="adds −∞ to key 6")
    inputs = put(make.question("empty-rows"), what, (0, 1, 1, 0), value)
    words = "a row that sees no key gives 0, also where a hidden key holds NaN"
    yield make.case("empty-rows", words, masked(inputs, "padding(0, 5)"), mask="padding(0, 5)")


def _padded(make: Making, name: str, what: str, value: float, asks: str, **sizes: float) -> Case:
    """One feature of key 5 is `value`; keys from 4 on are hidden."""
    inputs: AttentionInputs = put(make.question(name, **sizes), what, (0, 1, 5, 0), value)  # type: ignore[arg-type]
    return make.case(name, asks, masked(inputs, "padding(4)"), mask="padding(4)")
