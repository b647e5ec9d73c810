"""Readings of a mask: what may be the code's own, and what it was given."""

from __future__ import annotations

import numpy as np

from attn_cli.core.masks import BoolArray
from attn_cli.diagnosis.dumped.masks import MaskReading, readings

B, H, L, S = 2, 3, 4, 4


def full(seen: BoolArray) -> BoolArray:
    return np.broadcast_to(seen, (B, H, *seen.shape[-2:]))


def only_own(found: tuple[MaskReading, ...]) -> MaskReading:
    (own,) = [one for one in found if one.intent.causal or one.intent.window is not None]
    return own


def test_nothing_hidden_is_one_reading_without_a_mask() -> None:
    for seen in (None, full(np.ones((L, S), bool))):
        (one,) = readings(seen, 0, own_first=True)
        assert (one.keep, one.spec, one.intent.causal) == (None, None, False)


def test_a_triangle_is_the_code_s_own_or_given() -> None:
    own, given = readings(full(np.tri(L, S, dtype=bool)), 0, own_first=True)
    assert own.intent.causal
    assert own.keep is None
    assert given.spec is not None
    assert given.spec.axes == "LS"
    assert readings(full(np.tri(L, S, dtype=bool)), 0, own_first=False)[1].intent.causal


def test_a_window_is_found_with_its_size() -> None:
    far = np.arange(6)[:, None] - np.arange(6)
    own = only_own(readings(full((far >= 0) & (far < 3)), 0, own_first=True))
    assert (own.intent.causal, own.intent.window) == (True, 3)
    own = only_own(readings(full(abs(far) < 2), 0, own_first=True))
    assert (own.intent.causal, own.intent.window) == (False, 2)


def test_a_triangle_with_padding_is_taken_apart() -> None:
    padding = np.array([[True] * 4, [True, True, True, False]])[:, None, None]
    seen = np.tri(L, S, dtype=bool) & padding & np.ones((B, H, 1, 1), bool)
    own = only_own(readings(seen, 0, own_first=True))
    assert own.intent.causal
    assert own.keep is not None
    np.testing.assert_array_equal(own.keep, padding)
    assert own.spec is not None
    assert own.spec.axes == "BS"


def test_queries_at_the_end_of_the_keys_are_lower_right() -> None:
    seen = np.tri(2, 5, 3, dtype=bool)
    assert only_own(readings(full(seen), 3, own_first=True)).intent.align == "lower-right"
    upper = np.tri(2, 5, dtype=bool)
    assert only_own(readings(full(upper), 0, own_first=True)).intent.align == "upper-left"


def test_a_mask_of_each_head_keeps_its_axes() -> None:
    seen = np.random.default_rng(0).random((B, H, L, S)) < 0.6
    (given,) = readings(seen, 0, own_first=True)
    assert given.keep is not None
    np.testing.assert_array_equal(given.keep, seen)
