"""layer: heads are cut from the width in order, and put together again."""

from __future__ import annotations

import numpy as np
import pytest

from attn_cli.core.layer import merge_heads, split_heads, working_head_counts
from attn_cli.errors import InputError


def test_every_entry_goes_to_its_head_and_token() -> None:
    # Entry (b, t, h·d + i) is written as the number b t h i, so its origin can be read off.
    b, t, h, i = np.ogrid[:2, :3, :4, :5]
    x = (1000 * b + 100 * t + 10 * h + i).reshape(2, 3, 20).astype(float)
    split = split_heads(x, 4)
    assert split.shape == (2, 4, 3, 5)
    assert split[1, 3, 2].tolist() == [1230, 1231, 1232, 1233, 1234]
    assert split[0, 2, 1].tolist() == [120, 121, 122, 123, 124]


def test_merging_puts_the_heads_of_a_token_side_by_side() -> None:
    # Two heads of width 2, three tokens; an entry is named by its head and token.
    context = np.array(
        [
            [["h0t0", "h0t0"], ["h0t1", "h0t1"], ["h0t2", "h0t2"]],
            [["h1t0", "h1t0"], ["h1t1", "h1t1"], ["h1t2", "h1t2"]],
        ]
    )[np.newaxis]
    merged = merge_heads(context)[0, :, ::2]
    assert merged.tolist() == [["h0t0", "h1t0"], ["h0t1", "h1t1"], ["h0t2", "h1t2"]]


def test_merge_undoes_split() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 12))
    np.testing.assert_array_equal(merge_heads(split_heads(x, 3)), x)


@pytest.mark.parametrize(
    "width, heads, words",
    [(10, 4, "1, 2, 5, 10"), (7, 2, "1, 7"), (6, 7, "1, 2, 3, 6")],
)
def test_a_width_that_does_not_divide_names_the_counts_that_work(
    width: int, heads: int, words: str
) -> None:
    with pytest.raises(InputError, match=f"d_model {width} .* {heads} heads") as caught:
        split_heads(np.zeros((1, 2, width)), heads)
    assert caught.value.hint == f"these head counts work: {words}"


def test_of_many_counts_the_nearest_are_named() -> None:
    with pytest.raises(InputError) as caught:
        split_heads(np.zeros((1, 1, 720)), 7)
    assert caught.value.hint == "the nearest that work: 2, 3, 4, 5, 6, 8, 9, 10"


def test_working_head_counts_are_the_divisors() -> None:
    assert working_head_counts(1) == (1,)
    assert working_head_counts(48) == (1, 2, 3, 4, 6, 8, 12, 16, 24, 48)
