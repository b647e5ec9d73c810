"""One item and one head of a question give what the whole question gives there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.slicing import one_head, one_item, some_rows
from attn_cli.positions.alibi import Alibi, slopes
from tests.agreement.holding import run
from tests.agreement.samples import SAMPLES, built, drawn, masked_sample

STAGES = ("scores", "biased", "masked", "weights", "context")


def assert_part(inputs: AttentionInputs, part: AttentionInputs, b: int, heads: slice) -> None:
    whole, cut = run("numpy", inputs), run("numpy", part)
    for stage in STAGES:
        np.testing.assert_array_equal(cut[stage], whole[stage][b : b + 1, heads], stage)


@pytest.mark.parametrize("name", list(SAMPLES))
def test_parts_of_every_sample(name: str) -> None:
    inputs = SAMPLES[name]()
    batch, heads = inputs.shape[:2]
    for b in range(batch):
        assert_part(inputs, one_item(inputs, b), b, slice(None))
        for h in range(heads):
            assert_part(inputs, one_head(inputs, b, h), b, slice(h, h + 1))


def test_masks_and_position_biases_know_where_they_are() -> None:
    inputs = replace(masked_sample("padding(5, 2)", 7, 0), position_bias=Alibi(slopes(2)))
    part = one_head(inputs, 1, 1)
    assert_part(inputs, part, 1, slice(1, 2))
    assert part.position_bias is not None
    assert part.position_bias.name == "ALiBi"
    assert part.mask is not None
    zero = range(7)
    assert inputs.mask is not None
    assert part.mask.tile(0, 0, zero, zero) is inputs.mask.tile(1, 1, zero, zero)


def test_a_head_that_is_not_its_own_is_seen() -> None:
    inputs = SAMPLES["heads"]()
    with pytest.raises(AssertionError):
        assert_part(inputs, one_head(inputs, 0, 1), 0, slice(0, 1))


@pytest.mark.parametrize("q_offset", [0, 3, None])
@pytest.mark.parametrize("mask", ["causal", "window(3, both)", "random(2, seed=1)"])
def test_some_rows_of_a_head_are_those_of_the_whole_run(q_offset: int | None, mask: str) -> None:
    rng = np.random.default_rng(5)
    plain = drawn(1, batch=2, heads=4, kv_heads=2, queries=6, keys=9, q_offset=q_offset)
    whole = replace(
        plain,
        mask=built(mask, plain),
        additive=rng.normal(size=(2, 1, 6, 9)),
        bias=rng.normal(size=(4, 6, 1)),
        sinks=rng.normal(size=4),
    )
    whole = whole if q_offset is None else replace(whole, position_bias=Alibi(slopes(4)))
    expected = run("numpy", whole)
    part = some_rows(whole, 1, range(2, 4), range(2, 5))
    assert part.shape == (1, 2, 3, 9)
    found = run("numpy", part)
    for stage in ("masked", "weights", "context"):
        np.testing.assert_allclose(
            found[stage][0], expected[stage][1, 2:4, 2:5], rtol=1e-13, atol=1e-15, err_msg=stage
        )
