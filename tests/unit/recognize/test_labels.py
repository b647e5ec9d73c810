"""labels: tokens are counted against the vectors and name queries and keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attn_cli.core.inputs import Labels
from attn_cli.core.settings import Choices
from attn_cli.errors import InputError
from attn_cli.recognize import understand
from tests.unit.recognize.dumps import codes, dump_of, normal, qkv, read


def labels(*, texts: Any, choices: Any = None, **arrays: Any) -> Labels:
    found = read(dump_of(texts=texts, **arrays), **(choices or {})).inputs.labels
    assert found is not None
    return found


def test_tokens_name_queries_and_keys() -> None:
    words = ["猫", "the", "the"]
    found = labels(texts={"tokens": words}, x=normal(3, 4))
    assert found == Labels(query=(tuple(words),), key=(tuple(words),))


def test_without_tokens_there_are_no_labels() -> None:
    reading = read(dump_of(x=normal(3, 4)))
    assert reading.inputs.labels is None
    assert not reading.summary.tokens


def test_each_item_of_a_batch_has_its_tokens() -> None:
    found = labels(texts={"tokens": [["a", "b"], ["c", "d"]]}, x=normal(2, 2, 4))
    assert found.query == (("a", "b"), ("c", "d"))


def test_one_list_serves_a_batch_and_is_said() -> None:
    reading = read(dump_of(texts={"tokens": ["a", "b"]}, x=normal(2, 2, 4)))
    assert reading.inputs.labels is not None
    assert reading.inputs.labels.query == (("a", "b"), ("a", "b"))
    assert "tokens-shared" in codes(reading)


def test_padding_needs_no_tokens() -> None:
    found = labels(
        texts={"tokens": [["a"], ["b", "c"]]}, x=normal(2, 2, 4), lengths=np.array([1, 2])
    )
    assert found.key == (("a", "[pad]"), ("b", "c"))


def test_two_sequences_have_tokens_each() -> None:
    arrays = {"x": normal(2, 4), "context": normal(3, 4)}
    found = labels(texts={"tokens": ["a", "b"], "context_tokens": ["c", "d", "e"]}, **arrays)
    assert found == Labels(query=(("a", "b"),), key=(("c", "d", "e"),))
    found = labels(texts={"tokens": ["a", "b"]}, **arrays)
    assert found.key == (("0", "1", "2"),)


def test_a_context_file_brings_its_own_tokens() -> None:
    other = dump_of(x=normal(3, 4), texts={"tokens": ["c", "d", "e"]})
    found = understand(dump_of(x=normal(2, 4)), Choices(), context=other).inputs.labels
    assert found == Labels(query=(("0", "1"),), key=(("c", "d", "e"),))


def test_decoding_takes_the_queries_tokens_from_the_keys() -> None:
    texts, arrays = {"tokens": list("abcde")}, qkv((2, 6), (5, 6))
    keys = (tuple("abcde"),)
    lower = labels(texts=texts, choices={"align": "lower-right"}, **arrays)
    assert lower == Labels(query=(("d", "e"),), key=keys)
    upper = labels(texts=texts, choices={"align": "upper-left"}, **arrays)
    assert upper == Labels(query=(("a", "b"),), key=keys)
    assert labels(texts=texts, **arrays) == Labels(query=(("0", "1"),), key=keys)


def test_as_many_tokens_as_queries_name_the_queries() -> None:
    found = labels(texts={"tokens": ["a", "b"]}, **qkv((2, 6), (5, 6)))
    assert found == Labels(query=(("a", "b"),), key=(("0", "1", "2", "3", "4"),))


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_numbers_serve_as_tokens(dtype: type) -> None:
    found = labels(texts={}, x=normal(2, 4), tokens=np.array([101, 2023], dtype))
    assert found.query == (("101", "2023"),)
    found = labels(texts={}, x=normal(2, 1, 4), tokens=np.array([[7], [8]], dtype))
    assert found.key == (("7",), ("8",))


def test_the_only_array_may_be_called_tokens() -> None:
    reading = read(dump_of(tokens=normal(2, 4)))
    assert codes(reading) == ["one-array", "no-projections"]
    assert reading.inputs.labels is None


@pytest.mark.parametrize(
    "texts, arrays, words",
    [
        ({"tokens": ["a"]}, {"x": normal(3, 4)}, "tokens has length 1, and there are 3 vectors"),
        (
            {"tokens": [["a"], ["b", "c"]]},
            {"x": normal(2, 2, 4)},
            "tokens at item 0 has length 1, and there are 2",
        ),
        ({"tokens": [["a", "b"]]}, {"x": normal(2, 2, 4)}, "1 lists for 2 batch items"),
        ({}, {"x": normal(3, 4), "tokens": np.zeros(0)}, "tokens has length 0, and there are 3"),
        (
            {"tokens": list("abc")},
            qkv((2, 6), (5, 6)),
            "length 3, and there are 2 queries and 5 keys",
        ),
        (
            {"context_tokens": ["a"]},
            {"x": normal(2, 4), "context": normal(3, 4)},
            "context_tokens has length 1, and there are 3 keys",
        ),
    ],
)
def test_counts_that_differ(texts: dict[str, Any], arrays: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(dump_of(texts=texts, **arrays))
