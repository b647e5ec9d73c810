"""Usage: which queries see a key and which keys are seen, as the whole mask has it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attn_cli.core import usage
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.masks import BoolArray
from tests.agreement.samples import built, drawn

MASKS = ("none", "causal", "window(2)", "sink(1) & ~causal", "padding(3, 0)", "random(2, seed=1)")


def asked(mask: str, *, added: bool) -> AttentionInputs:
    plain = drawn(1, batch=2, heads=4, kv_heads=2, queries=7, keys=9, q_offset=2)
    inputs = replace(plain, mask=built(mask, plain))
    if not added:
        return inputs
    rng = np.random.default_rng(2)
    additive = np.where(rng.random((2, 1, 7, 9)) < 0.5, -np.inf, 0.5)
    return replace(inputs, additive=additive, bias=np.where(np.arange(9) == 3, -np.inf, 1.0))


def dense(inputs: AttentionInputs, b: int) -> BoolArray:
    seen = inputs.visible(b)
    return np.ones(inputs.shape[1:], bool) if seen is None else seen


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("tile", [1, 4, 1024])
def test_tile_by_tile_it_is_what_the_whole_mask_says(
    mask: str, added: bool, tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "TILE", tile)
    inputs = asked(mask, added=added)
    for b in range(2):
        seen = dense(inputs, b)
        np.testing.assert_array_equal(usage.seeing_queries(inputs, b), seen.any(2))
        np.testing.assert_array_equal(usage.seen_keys(inputs, b), seen.any(1))
        np.testing.assert_array_equal(usage.hidden_keys(inputs, b), ~seen.all(1))
        block = usage.visible_block(inputs, b, range(2, 5), range(3, 9))
        np.testing.assert_array_equal(block, seen[:, 2:5, 3:9])


def test_a_length_is_covered_once() -> None:
    assert usage.covering(5, 2) == [range(2), range(2, 4), range(4, 5)]
