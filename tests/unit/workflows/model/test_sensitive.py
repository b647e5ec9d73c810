"""Where tokens stand in their text."""

from __future__ import annotations

from attn_cli.workflows.model.sensitive import token_spans


def test_tokens_follow_one_another() -> None:
    row = ["[CLS]", "the", "cat", "the", ".", "[SEP]"]
    assert token_spans(row, "the cat  the.") == [None, (0, 3), (4, 7), (9, 12), (12, 13), None]


def test_bytes_of_one_character() -> None:
    assert token_spans(["苹", "苹", "果"], "苹果") == [(0, 1), (0, 1), (1, 2)]


def test_a_token_that_is_written_otherwise_has_no_place() -> None:
    """Nothing behind it is guessed to stand further on."""
    assert token_spans(["a", "##b", "c"], "ab c") == [(0, 1), None, None]
