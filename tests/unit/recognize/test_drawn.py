"""drawn: projections that --init makes, with the widths that were asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attn_cli.core.initial import Sizes, initial
from attn_cli.core.settings import Choices
from attn_cli.errors import InputError
from attn_cli.recognize import understand
from attn_cli.recognize.drawn import draw_projections
from attn_cli.recognize.settings import resolve
from tests.unit.recognize.dumps import dump_of, normal, read, said
from tests.unit.recognize.layers import projections

X = normal(4, 8, seed=20)


@pytest.mark.parametrize("init", ["xavier", "normal", "default"])
def test_the_matrices_are_the_seeds(init: Any) -> None:
    reading = read(dump_of(x=X), init=init, seed=5, heads=2, d_k=3, d_v=5)
    sizes = Sizes(d_model=8, d_context=8, heads=2, kv_heads=2, d_k=3, d_v=5)
    found, right = projections(reading), initial(init, 5, sizes)
    for part in ("w_q", "w_k", "w_v", "w_o"):
        np.testing.assert_array_equal(getattr(found, part), getattr(right, part))
    assert (found.b_q is None) == (init != "default")
    assert (reading.settings.init, reading.settings.seed) == (init, 5)
    assert reading.settings.weights is None


def test_without_a_seed_it_is_0_and_said() -> None:
    reading = read(dump_of(x=X), init="xavier", heads=2)
    assert reading.settings.seed == 0
    assert said(reading, "projections") == (
        "projections drawn, xavier, seed 0: W_q (8, 8), W_k (8, 8), W_v (8, 8), W_o (8, 8), "
        "no biases"
    )
    np.testing.assert_array_equal(
        reading.inputs.q, read(dump_of(x=X), init="xavier", seed=0, heads=2).inputs.q
    )


@pytest.mark.parametrize(
    "choices, q, k, v",
    [
        ({}, (1, 1, 4, 8), (1, 1, 4, 8), (1, 1, 4, 8)),
        ({"heads": 4}, (1, 4, 4, 2), (1, 4, 4, 2), (1, 4, 4, 2)),
        ({"heads": 4, "kv_heads": 2}, (1, 4, 4, 2), (1, 2, 4, 2), (1, 2, 4, 2)),
        ({"heads": 3, "d_k": 5}, (1, 3, 4, 5), (1, 3, 4, 5), (1, 3, 4, 5)),
        ({"heads": 2, "d_v": 7}, (1, 2, 4, 4), (1, 2, 4, 4), (1, 2, 4, 7)),
        ({"heads": 6, "kv_heads": 3, "d_k": 1, "d_v": 2}, (1, 6, 4, 1), (1, 3, 4, 1), (1, 3, 4, 2)),
    ],
)
def test_widths(choices: dict[str, int], q: Any, k: Any, v: Any) -> None:
    inputs = read(dump_of(x=X), init="normal", **choices).inputs
    assert (inputs.q.shape, inputs.k.shape, inputs.v.shape) == (q, k, v)
    assert inputs.origin is not None
    w_o = projections(read(dump_of(x=X), init="normal", **choices)).w_o
    assert w_o is not None
    assert w_o.shape == (q[1] * v[3], 8)


def test_a_context_of_another_width() -> None:
    dump = dump_of(x=X, context=normal(6, 5))
    reading = understand(dump, Choices(init="xavier", d_k=3))
    assert projections(reading).w_k.shape == (5, 3)
    assert reading.inputs.shape == (1, 1, 4, 6)


@pytest.mark.parametrize(
    "choices, words",
    [
        ({"heads": 3}, "d_model 8 does not split into 3 heads"),
        ({"heads": 4, "kv_heads": 3}, "--kv-heads is 3 and heads is 4"),
        ({"kv_heads": 2}, "--kv-heads is 2 and heads is 1"),
        ({"seed": -1}, "--seed is -1: expected a whole number from 0"),
        ({"seed": 2**64}, "--seed is 18446744073709551616"),
        ({"seed": 1.5}, "--seed is 1.5"),
        ({"d_k": 0}, "--d-k is 0"),
        ({"d_v": "wide"}, "--d-v is 'wide'"),
        ({"init": "glorot"}, "--init is 'glorot': expected xavier or normal or default"),
        ({"weights_layout": "in-out"}, "--weights-layout says how projections lie in a file"),
    ],
)
def test_what_cannot_be_drawn(choices: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(dump_of(x=X), **{"init": "xavier", **choices})


def test_the_largest_seed_is_a_seed() -> None:
    assert read(dump_of(x=X), init="normal", seed=2**64 - 1).settings.seed == 2**64 - 1


def test_head_counts_that_work_are_named() -> None:
    with pytest.raises(InputError) as caught:
        read(dump_of(x=X), init="xavier", heads=3)
    assert caught.value.hint == "these head counts work: 1, 2, 4, 8"


def test_projections_that_do_not_fit_in_memory_are_refused() -> None:
    asked = resolve({}, Choices(heads=2**20, d_k=2**20))
    with pytest.raises(InputError, match=r"projections of .* numbers need about .* of memory"):
        draw_projections("xavier", d_model=8, d_context=8, asked=asked)


def test_a_file_may_ask_for_them() -> None:
    settings = {"init": "default", "seed": 3, "heads": 2, "d_k": 2}
    reading = read(dump_of(x=X, settings=settings))
    assert reading.inputs.q.shape == (1, 2, 4, 2)
    assert said(reading, "settings-from-file").startswith("the file sets init default, seed 3")
    assert read(dump_of(x=X, settings=settings), seed=4).settings.seed == 4
