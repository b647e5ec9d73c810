"""Rows that see no key, by every kind of mask that can make them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attn_cli.checks.edges.case import Case
from attn_cli.checks.edges.making import STORED, Align, Making, masked, ways
from attn_cli.core.inputs import AttentionInputs

ASKS = "a row that sees no key gives 0, never NaN and never a mean; the other rows are untouched"
INF = float("inf")
# name → mask, queries, alignment; keys are 7. Lower-right: more queries than keys stand before 0.
TEXTS: dict[str, tuple[str, int, Align]] = {
    "causal-lower-right": ("causal", 9, "lower-right"),
    "prefix-0-lower-right": ("prefix(0)", 9, "lower-right"),
    "window-lower-right": ("window(2)", 9, "lower-right"),
    "window-behind-the-keys": ("window(2)", 11, "upper-left"),
    "window-both-behind-the-keys": ("window(2, both)", 11, "upper-left"),
    "dilated-lower-right": ("dilated(2, 2)", 9, "lower-right"),
    "dilated-behind-the-keys": ("dilated(2, 2)", 12, "upper-left"),
    "block-behind-the-keys": ("block(3)", 11, "upper-left"),
    "documents-behind-the-keys": ("documents(3, 4)", 9, "upper-left"),
    "documents-lower-right": ("documents(3, 4)", 9, "lower-right"),
    "padding-one-item": ("padding(0, 5)", 5, "upper-left"),
    "padding-all": ("padding(0)", 5, "upper-left"),
    "padding-and-causal": ("padding(0, 4) & causal", 5, "upper-left"),
    "sink-0": ("sink(0)", 5, "upper-left"),
    "causal-and-not-sink": ("causal & ~sink(2)", 5, "upper-left"),
    "random-and-causal": ("random(2) & causal", 5, "upper-left"),
    "global-alone": ("global(2) & ~sink(3)", 5, "upper-left"),
    "not-none": ("~none", 5, "upper-left"),
    "not-causal": ("~causal", 7, "upper-left"),
    "not-prefix": ("~prefix(7)", 5, "upper-left"),
    "two-windows-apart": ("window(1) & sink(2)", 5, "upper-left"),
    "documents-and-window": ("documents(3, 4) & window(2) & ~window(1)", 5, "upper-left"),
}


def empty_row(make: Making) -> Iterator[Case]:
    """Rows that see no key, by every kind of mask: weights 0 and output 0, never NaN."""
    for name, (text, queries, align) in TEXTS.items():
        inputs = masked(make.question(name, queries=queries, align=align), text)
        yield make.case(name, ASKS, inputs, mask=text)
    yield from _from_file(make)
    yield from _by_adding(make)
    yield from _with_more(make)


def _from_file(make: Making) -> Iterator[Case]:
    for name, where in {
        "file-first-row": (slice(None), slice(None), 0),
        "file-last-row": (slice(None), slice(None), -1),
        "file-one-head": (slice(None), 1),
        "file-one-row-of-one-head": (1, 2, 3),
        "file-all": (),
    }.items():
        plain = make.question(name)
        yield make.case(name, ASKS, masked(plain, STORED, _shown(plain, where)), mask=STORED)


def _by_adding(make: Making) -> Iterator[Case]:
    for name, where in {"additive-row": (..., 2, slice(None)), "additive-all": (...,)}.items():
        added = make.normal(name, "additive", 2, 1, 5, 7)
        added[where] = -INF
        inputs = make.question(name, additive=added)
        yield make.case(name, ASKS, inputs, mask="adds (2, 1, 5, 7) with rows of −∞")
    added = make.normal("bias-row", "bias", 1, 3, 5, 7)
    added[0, 1, 4] = -INF
    inputs = make.question("bias-row", bias=added)
    yield make.case("bias-row", ASKS, inputs, mask="the bias is −∞ in row 4 of head 1")
    added = np.where(np.arange(7) < 3, -INF, 0.0)[None]
    inputs = masked(make.question("additive-and-mask", additive=added), "causal")
    words = "what causal leaves the first rows, −∞ takes: they give 0"
    yield make.case("additive-and-mask", words, inputs, mask="causal, and adds −∞ to keys 0 to 2")


def _with_more(make: Making) -> Iterator[Case]:
    for name, more in ways(
        {
            "with-softcap": {"softcap": 2.0},
            "with-large-scores": {"size": 30.0},
            "with-grouped-heads": {"heads": 6, "kv_heads": 3},
            "with-one-key": {"keys": 1, "d_v": 7},
            "with-negative-scale": {"scale": -0.4},
        }
    ):
        yield _second_row(make, name, make.question(name, **more))
    inputs = make.question("with-sinks", sinks=make.normal("with-sinks", "sinks", 3))
    yield _second_row(make, "with-sinks", inputs)
    inputs = make.question("with-nan-behind")
    v = inputs.v.copy()
    v[0, 1] = np.nan
    shown = _shown(inputs, (0, 1))
    asks = "a head whose values are all NaN and all hidden gives 0"
    yield make.case(
        "with-nan-behind", asks, masked(replace(inputs, v=v), STORED, shown), mask=STORED
    )


def _second_row(make: Making, name: str, plain: AttentionInputs) -> Case:
    """Row 1 of every item and head sees nothing."""
    shown = _shown(plain, (slice(None), slice(None), 1))
    return make.case(name, ASKS, masked(plain, STORED, shown), mask=STORED)


def _shown(inputs: AttentionInputs, where: tuple[object, ...]) -> NDArray[np.bool_]:
    """True everywhere but at `where` of (batch, head, query, key)."""
    shown = np.ones(inputs.shape, bool)
    shown[where] = False  # type: ignore[index]
    return shown
