"""JSON text: one object, strict, in characters that stdout has."""

from __future__ import annotations

import json

import pytest

from attn_cli.render.json_text import error_fields, json_text

FIELDS = {"schema": "x/1", "rows": [{"token": "苹果"}, {"token": "b"}], "none": [], "n": None}


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_every_encoding_reads_back(encoding: str) -> None:
    text = json_text(FIELDS, encoding)
    assert json.loads(text.encode(encoding).decode(encoding)) == FIELDS


def test_utf8_keeps_the_characters_and_ascii_escapes_them() -> None:
    assert "苹果" in json_text(FIELDS, "utf-8")
    assert r"\u82f9\u679c" in json_text(FIELDS, "ascii")


def test_half_a_surrogate_pair_is_escaped() -> None:
    text = json_text({"token": "\ud83d"}, "utf-8")
    assert json.loads(text.encode("utf-8")) == {"token": "\ud83d"}


def test_objects_stand_one_a_line() -> None:
    assert json_text(FIELDS, "utf-8").splitlines()[2:5] == [
        '  "rows": [',
        '    {"token": "苹果"},',
        '    {"token": "b"}',
    ]


def test_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        json_text({"sum": float("nan")}, "utf-8")


def test_error_object() -> None:
    assert error_fields("no such file", "look again") == {
        "schema": "attn.error/1",
        "message": "no such file",
        "hint": "look again",
    }
