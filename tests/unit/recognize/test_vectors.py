"""vectors: token vectors, alone or attending to a second sequence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attn_cli.core.settings import Choices
from attn_cli.errors import InputError
from attn_cli.recognize import understand
from tests.unit.recognize.dumps import codes, dump_of, normal, read, said


def test_without_projections_all_three_are_x() -> None:
    x = normal(3, 4)
    reading = read(dump_of(vectors=x))
    for array in (reading.inputs.q, reading.inputs.k, reading.inputs.v):
        np.testing.assert_array_equal(array, x[np.newaxis, np.newaxis])
    assert reading.inputs.x is not None
    np.testing.assert_array_equal(reading.inputs.x, x[np.newaxis])
    assert said(reading, "no-projections") == "no projections: Q = K = V = vectors"
    assert codes(reading) == ["no-projections"]
    assert reading.summary.d_model == 4


def test_heads_split_a_batch() -> None:
    x = normal(2, 3, 6)
    reading = read(dump_of(x=x), heads=2)
    np.testing.assert_array_equal(reading.inputs.q[1, 1], x[1, :, 3:])
    assert said(reading, "no-projections").endswith("x, split into 2 heads of 3")
    assert (reading.summary.d_model, reading.summary.d_k) == (6, 3)


def test_a_context_is_the_second_sequence() -> None:
    x, context = normal(2, 4), normal(5, 4, seed=1)
    reading = read(dump_of(x=x, context=context))
    assert reading.inputs.shape == (1, 1, 2, 5)
    np.testing.assert_array_equal(reading.inputs.v[0, 0], context)
    assert reading.inputs.q_offset is None
    assert reading.summary.context == "context"
    assert said(reading, "no-projections") == "no projections: Q = x, K = V = context"


def test_a_context_may_be_a_file_of_its_own() -> None:
    dump, other = dump_of(x=normal(2, 4)), dump_of(embeddings=normal(3, 4), source="other.npy")
    reading = understand(dump, Choices(), context=other)
    assert reading.inputs.shape == (1, 1, 2, 3)
    assert reading.summary.context == "other.npy"
    with pytest.raises(InputError, match=r"context in the file and other\.npy are both"):
        understand(dump_of(x=normal(2, 4), context=normal(2, 4)), Choices(), context=other)


def test_integers_are_converted_and_said() -> None:
    reading = read(dump_of(x=np.array([[1, 0], [0, 1]])))
    assert reading.inputs.q.dtype == np.float64
    assert reading.summary.precision == "int64"
    assert said(reading, "integers-converted") == "x is int64, converted to float64"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_narrow_precisions_are_widened_and_said(dtype: str) -> None:
    reading = read(dump_of(x=np.ones((2, 2), np.float32), dtypes={"x": dtype}))
    assert reading.summary.precision == dtype
    assert said(reading, "dtype-widened") == f"x is {dtype}, widened exactly"


@pytest.mark.parametrize("dtype", ["json", "csv"])
def test_numbers_written_out_are_float64_without_a_word(dtype: str) -> None:
    reading = read(dump_of(x=np.ones((2, 2)), dtypes={"x": dtype}))
    assert reading.summary.precision == "float64"
    assert codes(reading) == ["no-projections"]


def test_the_widest_precision_counts_where_they_differ() -> None:
    arrays = {"x": np.ones((2, 2), np.float16), "context": np.ones((2, 2), np.float32)}
    reading = read(dump_of(**arrays))
    assert reading.summary.precision == "float32"
    assert "x float16, context float32" in said(reading, "mixed-precision")


@pytest.mark.parametrize(
    "shape, words",
    [
        ((8,), r"shape \(8,\): expected token vectors, \(length, d_model\)"),
        ((), r"shape \(\)"),
        ((1, 2, 3, 4), r"shape \(1, 2, 3, 4\)"),
        ((1, 2, 3, 4, 5), r"shape \(1, 2, 3, 4, 5\)"),
        ((0, 8), r"shape \(0, 8\): an axis of size 0"),
        ((3, 0), r"shape \(3, 0\)"),
    ],
)
def test_shapes_that_are_no_token_vectors(shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(dump_of(x=np.zeros(shape)))


def test_an_array_without_a_name_is_not_given_one() -> None:
    with pytest.raises(InputError, match=r"one_d\.npy: the array has shape \(8,\)"):
        read(dump_of(x=np.zeros(8), unnamed=True, source="one_d.npy"))


def test_a_bool_array_looks_like_a_mask() -> None:
    with pytest.raises(InputError, match=r"x has dtype bool.*looks like a mask"):
        read(dump_of(x=np.ones((4, 4), bool)))


@pytest.mark.parametrize(
    "context, choices, words",
    [
        (None, {"heads": 3}, "d_model 8 does not split into 3 heads"),
        (None, {"heads": 4, "kv_heads": 2}, "--kv-heads is 2 and heads is 4"),
        (None, {"kv_heads": 2}, "--kv-heads is 2 and heads is 1"),
        (None, {"layout": "blhd"}, "--layout is blhd"),
        ((5, 6), {}, "context has vectors of width 6 and the token vectors have width 8"),
        ((2, 5, 8), {}, "context has 2 batch items and the token vectors have 1"),
        ((5,), {}, r"context has shape \(5,\)"),
    ],
)
def test_what_does_not_fit(
    context: tuple[int, ...] | None, choices: dict[str, Any], words: str
) -> None:
    arrays = {"x": normal(4, 8)} | ({"context": normal(*context)} if context else {})
    with pytest.raises(InputError, match=words):
        read(dump_of(**arrays), **choices)


def test_a_context_beside_q_k_and_v_is_refused() -> None:
    arrays = {name: normal(3, 4) for name in "qkv"}
    with pytest.raises(InputError, match=r"c\.npy, is for token vectors"):
        understand(dump_of(**arrays), Choices(), context=dump_of(x=normal(3, 4), source="c.npy"))
