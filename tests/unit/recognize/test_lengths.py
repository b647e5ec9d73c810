"""lengths: the keys behind the end of a sequence are hidden, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attn_cli.core.settings import Choices
from attn_cli.errors import InputError
from attn_cli.recognize import understand
from tests.unit.recognize.dumps import dump_of, normal, qkv, read, said


def test_lengths_hide_the_keys_behind_them() -> None:
    reading = read(dump_of(x=normal(2, 4, 6), lengths=np.array([3, 0])))
    expected = np.zeros((2, 1, 4, 4), bool)
    expected[0, :, :, :3] = True
    np.testing.assert_array_equal(reading.inputs.keep(), expected)
    assert said(reading, "lengths") == "lengths 3, 0: the keys behind are padding, and hidden"


@pytest.mark.parametrize("lengths", [np.array(3), np.array([3]), np.array([3.0, 3.0])])
def test_one_number_serves_every_item(lengths: np.ndarray[Any, Any]) -> None:
    inputs = read(dump_of(**qkv((2, 4, 6)), seq_lens=lengths)).inputs
    np.testing.assert_array_equal(inputs.keep()[:, 0, 0], [[True, True, True, False]] * 2)


def test_lengths_serve_the_expression_padding_too() -> None:
    dump = dump_of(x=normal(2, 4, 6), lengths=np.array([3, 2]))
    reading = read(dump, masks=("padding",))
    np.testing.assert_array_equal(reading.inputs.keep(), read(dump).inputs.keep())


@pytest.mark.parametrize(
    "lengths, words",
    [
        (np.array([3, 5]), "lengths is 5 at item 1: expected a whole number from 0 to the 4 keys"),
        (np.array([-1, 2]), "lengths is -1 at item 0"),
        (np.array([2.5, 2]), "lengths is 2.5 at item 0"),
        (np.array([np.nan, 2]), "lengths is nan at item 0"),
        (np.array([1, 2, 3]), r"shape \(3,\) .* each of 2 batch items"),
        (np.array([[1, 2]]), r"shape \(1, 2\)"),
        (np.array([True, False]), "dtype bool"),
    ],
)
def test_what_is_no_count_of_keys(lengths: np.ndarray[Any, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(dump_of(x=normal(2, 4, 6), lengths=lengths))


def test_of_two_sequences_the_attended_one_has_the_lengths() -> None:
    arrays = {"x": normal(1, 2, 6), "context": normal(1, 4, 6)}
    reading = read(dump_of(**arrays, context_lengths=np.array([3])))
    np.testing.assert_array_equal(reading.inputs.keep()[0, 0, 0], [True, True, True, False])
    with pytest.raises(InputError, match="lengths stands beside two sequences"):
        read(dump_of(**arrays, lengths=np.array([2])))


def test_a_context_file_brings_its_own_lengths() -> None:
    other = dump_of(x=normal(1, 4, 6), lengths=np.array([1]))
    reading = understand(dump_of(x=normal(1, 2, 6)), Choices(), context=other)
    np.testing.assert_array_equal(reading.inputs.keep()[0, 0, 0], [True, False, False, False])


def test_lengths_given_twice_are_refused() -> None:
    with pytest.raises(InputError, match="lengths twice"):
        read(dump_of(**qkv((4, 6)), lengths=np.array([2]), key_lengths=np.array([3])))


def test_queries_are_padded_where_they_are_the_keys() -> None:
    one = read(dump_of(x=normal(2, 3, 4), lengths=np.array([3, 2])))
    assert one.inputs.query_lengths == (3, 2)
    arrays = {"x": normal(2, 3, 4), "context": normal(2, 3, 4)}
    two = read(dump_of(**arrays, context_lengths=np.array([3, 2])), masks=("causal",))
    assert two.inputs.q_offset == 0
    assert two.inputs.query_lengths is None
