"""alignment: positions of queries among keys, never guessed where their numbers differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attn_cli.errors import InputError
from tests.unit.recognize.dumps import codes, dump_of, normal, qkv, read, said

LOWER_RIGHT = [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
UPPER_LEFT = [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]]


@pytest.mark.parametrize(
    "align, offset, rows", [("lower-right", 3, LOWER_RIGHT), ("upper-left", 0, UPPER_LEFT)]
)
def test_two_queries_against_five_keys(align: Any, offset: int, rows: list[list[int]]) -> None:
    reading = read(dump_of(**qkv((2, 6), (5, 6))), masks=("causal",), align=align)
    assert reading.inputs.q_offset == offset
    np.testing.assert_array_equal(reading.inputs.keep()[0, 0], np.array(rows, bool))
    assert said(reading, "alignment").startswith(f"2 queries against 5 keys, {align}:")
    assert reading.settings.align == align


def test_a_mask_that_compares_positions_needs_to_be_told() -> None:
    with pytest.raises(InputError, match="causal compares positions") as caught:
        read(dump_of(**qkv((2, 6), (5, 6))), masks=("causal",))
    assert "--align lower-right" in caught.value.hint


def test_other_masks_do_not() -> None:
    reading = read(dump_of(**qkv((2, 6), (5, 6))), masks=("sink(2)",))
    assert reading.inputs.q_offset is None
    np.testing.assert_array_equal(reading.inputs.keep()[0, 0], [[1, 1, 0, 0, 0]] * 2)


def test_as_many_queries_as_keys_need_no_word() -> None:
    reading = read(dump_of(**qkv((4, 6))), align="lower-right")
    assert reading.inputs.q_offset == 0
    assert codes(reading) == []


def test_more_queries_than_keys_leave_the_first_ones_without_keys() -> None:
    inputs = read(dump_of(**qkv((3, 6), (2, 6))), masks=("causal",), align="lower-right").inputs
    assert inputs.q_offset == -1
    np.testing.assert_array_equal(inputs.keep()[0, 0], [[0, 0], [1, 0], [1, 1]])


def test_two_sequences_have_no_common_origin_unless_a_mask_needs_one() -> None:
    dump = dump_of(x=normal(3, 4), context=normal(3, 4, seed=1))
    assert read(dump).inputs.q_offset is None
    reading = read(dump, masks=("causal",))
    assert reading.inputs.q_offset == 0
    assert "two sequences" in said(reading, "alignment")
    assert read(dump, align="upper-left").inputs.q_offset == 0


def test_an_array_mask_is_read_row_by_row_whatever_the_alignment() -> None:
    mask = np.array([[1, 0, 0, 0, 1], [0, 1, 1, 0, 0]], bool)
    for align in (None, "lower-right", "upper-left"):
        reading = read(dump_of(**qkv((2, 6), (5, 6)), mask=mask), align=align)
        np.testing.assert_array_equal(reading.inputs.keep()[0, 0], mask)
