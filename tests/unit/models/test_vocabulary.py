"""vocabulary: text becomes tokens in one way, and what is no token is named with its neighbours."""

from __future__ import annotations

import json
from typing import Any

import pytest

from attn_cli.errors import InputError
from attn_cli.models.vocabulary import Vocabulary, parse_vocabulary, read_words

CHINESE = ["我", "我们", "喜欢", "喜", "苹果", "。"]


def vocabulary(words: list[str]) -> Vocabulary:
    return parse_vocabulary(json.dumps(words))


def tokens(text: str, words: list[str]) -> tuple[str, ...]:
    return read_words(text, vocabulary(words)).tokens


def test_ids_are_the_order_of_the_vocabulary() -> None:
    assert read_words("b a b", vocabulary(["a", "b"])).ids == (1, 0, 1)


def test_blanks_of_every_kind_part_tokens() -> None:
    assert tokens(" a\tb\n\u3000a ", ["a", "b"]) == ("a", "b", "a")


def test_unspaced_text_is_cut_into_the_longest_tokens() -> None:
    assert tokens("我们喜欢苹果。", CHINESE) == ("我们", "喜欢", "苹果", "。")


def test_spaced_text_says_nothing_and_cut_text_says_how() -> None:
    assert read_words("我 喜欢", vocabulary(CHINESE)).findings == ()
    (said,) = read_words("我喜欢 苹果", vocabulary(CHINESE)).findings
    assert (said.code, said.severity) == ("longest-match", "note")
    assert "'我喜欢' as 我 喜欢" in said.message


def test_a_whole_token_is_not_cut() -> None:
    assert tokens("ab", ["a", "b", "ab"]) == ("ab",)


def test_case_counts() -> None:
    with pytest.raises(InputError, match="'A' is not in the model's vocabulary"):
        tokens("A", ["a"])


def test_an_unknown_token_is_named_with_those_near_to_it() -> None:
    with pytest.raises(InputError, match="'aple' is not in the model's vocabulary") as caught:
        tokens("an aple", ["an", "apple", "ape", "juice"])
    assert caught.value.hint == "did you mean 'apple' or 'ape'? it knows an apple ape juice"


def test_the_place_where_cutting_stops_is_named() -> None:
    with pytest.raises(InputError, match=r"'我喜欢梨' is not .* no token of it begins '梨'"):
        tokens("我喜欢梨", CHINESE)


def test_a_large_vocabulary_is_not_listed_whole() -> None:
    with pytest.raises(InputError) as caught:
        tokens("?", [f"w{i}" for i in range(5000)])
    assert caught.value.hint.endswith("w9 and 4,990 more")


@pytest.mark.parametrize("text", ["", "  \n "])
def test_a_text_without_tokens_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="the text holds no token"):
        tokens(text, ["a"])


def test_a_long_text_is_said_in_short() -> None:
    (said,) = read_words("ab" * 500, vocabulary(["a", "b"])).findings
    assert len(said.message) < 300


@pytest.mark.parametrize(
    "words, message",
    [
        (["a", "b", "a"], "holds 'a' twice, as tokens 0 and 2"),
        (["a", ""], "token 1 .* is empty or holds a blank"),
        (["a b"], "token 0 .* 'a b', is empty or holds a blank"),
        (["a", 3], "token 1 of the model's vocabulary is no string"),
        ([], "no list of tokens"),
        ({"a": 0}, "no list of tokens"),
    ],
    ids=str,
)
def test_a_vocabulary_that_cannot_be_is_refused(words: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_vocabulary(json.dumps(words))


def test_a_vocabulary_that_is_no_json_is_refused() -> None:
    with pytest.raises(InputError, match="vocabulary is not valid JSON"):
        parse_vocabulary("a b c")
