"""Tokens and messages come from files: nothing in them may move, hide or reorder a screen."""

from __future__ import annotations

import pytest

from attn_cli.render.text import clean, safe, spelled


@pytest.mark.parametrize(
    "hostile, shown",
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("\x9b31m", r"\x9b31m"),
        ("a\r\nb\tc\0", r"a\r\nb\tc\0"),
        ("\x07\x7f", r"\x07\x7f"),
        ("\u202eabc\u202c", r"\u202eabc\u202c"),
        ("\u2066x\u2069", r"\u2066x\u2069"),
        ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
        ("a\u200d", r"a\u200d"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("a\u00a0b\u3000", r"a\xa0b\u3000"),
        ("\u00ad", r"\xad"),
        ("\ud83d", r"\ud83d"),
        ("\ue000", r"\ue000"),
        ("\u3164", r"\u3164"),
        ("\U000e0041", r"\U000e0041"),
        ("\u0301e", r"\u0301e"),
    ],
)
def test_clean_escapes_what_is_not_seen(hostile: str, shown: str) -> None:
    assert clean(hostile) == shown


@pytest.mark.parametrize(
    "word",
    [
        "cat",
        "苹果",
        "Ġthe",
        "naïve",
        "e\u0301",
        "שלום",
        "हिन्दी",
        "😀",
        "❤\ufe0f",
        "👩\u200d👧",
        "[bold]",
    ],
)
def test_clean_leaves_what_is_seen(word: str) -> None:
    assert clean(word) == word


def test_clean_stops_a_tower_of_accents() -> None:
    assert clean("e" + "\u0301" * 6) == "e" + "\u0301" * 4 + r"\u0301" * 2


@pytest.mark.parametrize(
    "token, shown",
    [(" the", "␣the"), ("  ", "␣␣"), ("the ", "the␣"), ("new york", "new york"), ("", '""')],
)
def test_outer_spaces_of_a_token_are_seen(token: str, shown: str) -> None:
    assert safe(token) == shown


@pytest.mark.parametrize(
    "encoding, shown",
    [
        ("utf-8", "✓ Σ 我 ·"),
        ("ascii", r"ok sum \u6211 ."),
        ("latin-1", r"ok sum \u6211 ·"),
        ("gb18030", "✓ Σ 我 ·"),
    ],
)
def test_spelled_uses_what_the_encoding_has(encoding: str, shown: str) -> None:
    assert spelled("✓ Σ 我 ·", encoding) == shown
