"""layout: two, three and four axes of q, k and v, heads in the width or in an axis of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attn_cli.errors import InputError
from tests.unit.recognize.dumps import codes, dump_of, normal, qkv, read, said

Shape = tuple[int, ...]


def shapes(*three: Shape, **choices: Any) -> tuple[Shape, Shape, Shape]:
    inputs = read(dump_of(**qkv(*three)), **choices).inputs
    return inputs.q.shape, inputs.k.shape, inputs.v.shape


def test_two_axes_are_length_and_width() -> None:
    assert shapes((2, 6), (5, 6), (5, 3)) == ((1, 1, 2, 6), (1, 1, 5, 6), (1, 1, 5, 3))


def test_three_axes_are_a_batch_where_the_leading_sizes_agree() -> None:
    reading = read(dump_of(**qkv((3, 2, 6), (3, 5, 6))))
    assert reading.inputs.shape == (3, 1, 2, 5)
    assert said(reading, "layout") == "q, k and v are read as (batch, length, width)"


def test_three_axes_are_heads_where_q_has_a_multiple() -> None:
    arrays = qkv((6, 4, 5), (2, 4, 5))
    reading = read(dump_of(**arrays))
    np.testing.assert_array_equal(reading.inputs.q[0], arrays["q"])
    assert reading.inputs.k.shape == (1, 2, 4, 5)
    assert said(reading, "layout").startswith("q, k and v are read as (head, length, width)")
    assert said(reading, "grouped-heads") == "query head h reads key/value head h // 3"


def test_three_axes_that_are_neither_name_both_shapes() -> None:
    with pytest.raises(InputError, match=r"q has shape \(3, 4, 5\) and k has shape \(2, 4, 5\)"):
        read(dump_of(**qkv((3, 4, 5), (2, 4, 5))))


def test_four_axes_are_heads_before_length_unless_told() -> None:
    reading = read(dump_of(**qkv((2, 3, 4, 5))))
    assert reading.inputs.shape == (2, 3, 4, 4)
    assert "(batch, head, length, width); --layout blhd" in said(reading, "layout")


def test_layout_blhd_swaps_heads_and_length() -> None:
    arrays = qkv((2, 4, 6, 5), (2, 7, 3, 5))
    reading = read(dump_of(**arrays), layout="blhd")
    np.testing.assert_array_equal(reading.inputs.q[1, 2, 3], arrays["q"][1, 3, 2])
    assert reading.inputs.shape == (2, 6, 4, 7)
    assert reading.settings.layout == "blhd"
    assert codes(reading) == ["grouped-heads"]


def test_axes_that_attn_saved_need_no_note() -> None:
    axes = {"q": ("batch", "head", "query", "d_k")}
    assert codes(read(dump_of(**qkv((2, 3, 4, 5)), axes=axes))) == []


@pytest.mark.parametrize("shape", [(4, 6), (2, 4, 6)])
def test_layout_blhd_needs_four_axes(shape: Shape) -> None:
    with pytest.raises(InputError, match=f"--layout is blhd.*q has {len(shape)} axes"):
        read(dump_of(**qkv(shape)), layout="blhd")


def test_heads_split_the_width() -> None:
    arrays = qkv((4, 6))
    q = read(dump_of(**arrays), heads=3).inputs.q
    assert q.shape == (1, 3, 4, 2)
    np.testing.assert_array_equal(q[0, 1], arrays["q"][:, 2:4])


def test_key_value_heads_follow_from_the_width() -> None:
    three = (2, 4, 12), (2, 5, 4), (2, 5, 6)
    assert shapes(*three, heads=6) == ((2, 6, 4, 2), (2, 2, 5, 2), (2, 2, 5, 3))
    assert shapes(*three, kv_heads=2) == ((2, 6, 4, 2), (2, 2, 5, 2), (2, 2, 5, 3))
    assert shapes(*three, heads=6, kv_heads=2) == ((2, 6, 4, 2), (2, 2, 5, 2), (2, 2, 5, 3))


@pytest.mark.parametrize(
    "three, choices, message",
    [
        ([(4, 8)], {"heads": 3}, "the width of q, 8 does not split into 3 heads"),
        ([(4, 12), (4, 5)], {"heads": 3}, "k has width 5, which is no multiple of 4"),
        ([(4, 6), (4, 4)], {"kv_heads": 1}, "q has width 6, which is no multiple of 4"),
        ([(4, 8), (4, 8), (4, 3)], {"heads": 2}, "the width of v, 3 does not split into 2"),
        ([(4, 8), (4, 6)], {}, "q has width 8 and k has width 6"),
        ([(4, 8), (5, 8), (6, 8)], {}, "k has 5 positions and v has 6"),
        ([(2, 4, 5, 8)], {"heads": 5}, "--heads is 5, and q already has 4 heads"),
        ([(2, 4, 5, 8), (2, 2, 5, 8)], {"kv_heads": 4}, "--kv-heads is 4, and k already has 2"),
        ([(6, 4, 5), (2, 4, 5)], {"heads": 2}, "--heads is 2, and q already has 6 heads"),
        ([(2, 4, 5, 8), (2, 3, 5, 8)], {}, "q has 4 heads, k has 3"),
        ([(4, 12)], {"heads": 4, "kv_heads": 3}, "q is split into 4 heads and k into 3"),
        ([(4, 12), (4, 8)], {"kv_heads": 2}, "q is split into 3 heads and k into 2"),
        ([(2, 3, 4, 5), (1, 3, 4, 5)], {}, "2, 1 and 1 batch items"),
        ([(2, 3, 4), (4, 4)], {}, r"q \(2, 3, 4\), k \(4, 4\), v \(4, 4\)"),
        ([(8,)], {}, r"q has shape \(8,\): expected \(length, width\)"),
        ([(1, 2, 3, 4, 5)], {}, r"q has shape \(1, 2, 3, 4, 5\)"),
        ([(4, 8), (0, 8)], {}, r"k has shape \(0, 8\): an axis of size 0"),
    ],
)
def test_what_does_not_fit(three: list[Shape], choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(dump_of(**qkv(*three)), **choices)


def test_a_wider_query_may_be_several_heads() -> None:
    with pytest.raises(InputError, match="q has width 12 and k has width 6") as caught:
        read(dump_of(**qkv((2, 4, 12), (2, 4, 6))))
    assert "--heads and --kv-heads" in caught.value.hint


def test_heads_in_the_place_of_the_length_suggest_the_layout() -> None:
    with pytest.raises(InputError) as caught:
        read(dump_of(**qkv((2, 4, 6, 5))), heads=6)
    assert "--layout blhd" in caught.value.hint


def test_errors_speak_in_the_files_own_names() -> None:
    arrays = {"query": normal(4, 8), "key_states": normal(4, 6), "v": normal(4, 6)}
    with pytest.raises(InputError, match=r"file\.npz: q has width 8 and k has width 6") as caught:
        read(dump_of(**arrays))
    assert caught.value.hint == "in the file, q is query, k is key_states"
