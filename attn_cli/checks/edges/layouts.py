"""The same numbers lying in memory in every way that views and transposes leave them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.checks.edges.case import Case
from attn_cli.checks.edges.making import Making, masked
from attn_cli.core.inputs import AttentionInputs

Array = NDArray[Any]
Layout = Callable[[NDArray[Any]], NDArray[Any]]


def _fortran(array: Array) -> Array:
    return np.asfortranarray(array)


def _heads_last(array: Array) -> Array:
    """Stored (batch, length, heads, d), seen as (batch, heads, length, d)."""
    return np.ascontiguousarray(array.swapaxes(1, 2)).swapaxes(1, 2)


def _features_first(array: Array) -> Array:
    """Stored with the last two axes swapped, as kᵀ often is."""
    return np.ascontiguousarray(array.swapaxes(2, 3)).swapaxes(2, 3)


def _every_second(array: Array) -> Array:
    """Every second feature of an array twice as wide, with other numbers between."""
    wide = np.full((*array.shape[:-1], 2 * array.shape[-1]), 1e3)
    wide[..., ::2] = array
    return wide[..., ::2]


def _backwards(array: Array) -> Array:
    """A view with a negative stride along the positions."""
    return np.ascontiguousarray(array[:, :, ::-1])[:, :, ::-1]


def _inside(array: Array) -> Array:
    """A slice of a larger array, as after a split of fused q, k and v."""
    wide = np.full((*array.shape[:-1], 3 * array.shape[-1]), -1e3)
    width = array.shape[-1]
    wide[..., width : 2 * width] = array
    return wide[..., width : 2 * width]


LAYOUTS: dict[str, tuple[Layout, str]] = {
    "fortran": (_fortran, "in Fortran order"),
    "heads-last": (_heads_last, "stored as (batch, length, heads, d) and transposed"),
    "features-first": (_features_first, "stored as (batch, heads, d, length) and transposed"),
    "every-second": (_every_second, "every second feature of a wider array"),
    "backwards": (_backwards, "with a negative stride along the positions"),
    "inside": (_inside, "a slice of fused q, k, v"),
}


def memory_layout(make: Making) -> Iterator[Case]:
    """Arrays that are not contiguous or in Fortran order: the same answer as for their copies."""
    for layout, (laid, words) in LAYOUTS.items():
        for name in ("q", "k", "v"):
            case = f"{layout}-{name}"
            inputs = make.question(case)
            yield make.case(case, f"{name} lies {words}", _laid(inputs, laid, (name,)))
    for layout in ("fortran", "heads-last"):
        laid, words = LAYOUTS[layout]
        case = f"{layout}-all-causal"
        inputs = make.question(case, heads=6, kv_heads=3)
        inputs = masked(_laid(inputs, laid, ("q", "k", "v")), "causal")
        yield make.case(case, f"q, k and v lie {words}", inputs, mask="causal")
    inputs = make.question("shared-keys")
    k, v = (np.broadcast_to(a[:1], a.shape) for a in (inputs.k, inputs.v))
    words = "all items read the same memory (a stride of 0)"
    yield make.case("shared-keys", words, replace(inputs, k=k, v=v))
    added = _fortran(make.normal("fortran-bias", "bias", 2, 3, 5, 7))
    inputs = make.question("fortran-bias", bias=added)
    yield make.case("fortran-bias", "the bias lies in Fortran order", inputs)


def _laid(inputs: AttentionInputs, laid: Layout, names: tuple[str, ...]) -> AttentionInputs:
    """The question with arrays of these names lying otherwise in memory."""
    arrays: dict[str, Any] = {name: laid(getattr(inputs, name)) for name in names}
    return replace(inputs, **arrays)
