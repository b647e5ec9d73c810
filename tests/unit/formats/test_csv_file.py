"""CSV and TSV: headers, token columns, quoting, and lines counted as an editor counts them."""

from __future__ import annotations

import codecs

import numpy as np
import pytest

from attn_cli.formats import read
from tests.unit.formats.conftest import Put, Refuse

READ = [
    ("token,d0,d1\nI,0.5,1\ntea,2,3\n", ["I", "tea"], [[0.5, 1], [2, 3]]),
    ("I,0.5,1\ntea,2,3", ["I", "tea"], [[0.5, 1], [2, 3]]),
    ("0.5,1\n2,3\n", None, [[0.5, 1], [2, 3]]),
    ("d0,d1\n0.5,1\n2,3\n\n\n", None, [[0.5, 1], [2, 3]]),
    ("mot,d0\nje,1\ntu,2\n", ["je", "tu"], [[1], [2]]),
    ("token,d0\n7,1\nnan,2\n", ["7", "nan"], [[1], [2]]),
    ("token,d0\r\nI,1\r\n", ["I"], [[1]]),
    ("1,2\r3,4\r", None, [[1, 2], [3, 4]]),
    (" 1 , 2 \n", None, [[1, 2]]),
    ("I,0,1\ntea,1,0\n", ["I", "tea"], [[0, 1], [1, 0]]),
    (
        'token,d0\n",",1\n"say ""hi""",2\n"two\nlines",3\n 苹果,4\n',
        [",", 'say "hi"', "two\nlines", " 苹果"],
        [[1], [2], [3], [4]],
    ),
    ("d0,d1,d2\nnan,-inf,Infinity\n", None, [[np.nan, -np.inf, np.inf]]),
]


@pytest.mark.parametrize("text, tokens, x", READ)
def test_rows_become_vectors(
    put: Put, text: str, tokens: list[str] | None, x: list[list[float]]
) -> None:
    dump = read(put("x.csv", text.encode()))
    assert dump.unnamed
    assert dict(dump.dtypes) == {"x": "csv"}
    assert dump.texts == ({"tokens": tokens} if tokens else {})
    assert dump.findings == ()
    np.testing.assert_array_equal(dump.arrays["x"], x)


def test_byte_order_mark_is_no_part_of_the_first_name(put: Put) -> None:
    dump = read(put("x.csv", codecs.BOM_UTF8 + b"token,d0\n7,1\n"))
    assert dump.texts == {"tokens": ["7"]}


def test_tsv_is_split_at_tabs(put: Put) -> None:
    dump = read(put("x.tsv", b"token\td0\n,\t1\nb c\t2\n"))
    assert dump.texts == {"tokens": [",", "b c"]}
    np.testing.assert_array_equal(dump.arrays["x"], [[1], [2]])


@pytest.mark.parametrize(
    "text, tokens",
    [
        ("0,1,2\n.5,.6,.7\n1,2,3\n", None),
        (",0,1,2\n0,.5,.6,.7\n1,1,2,3\n", ["0", "1"]),
        ("token,0,1,2\na,.5,.6,.7\nb,1,2,3\n", ["a", "b"]),
    ],
)
def test_column_numbers_are_a_header_and_said(
    put: Put, text: str, tokens: list[str] | None
) -> None:
    dump = read(put("x.csv", text.encode()))
    (said,) = dump.findings
    assert (said.code, said.severity) == ("csv-header", "note")
    assert "line 1 holds the column numbers 0 to 2" in said.message
    assert dump.texts == ({"tokens": tokens} if tokens else {})
    np.testing.assert_array_equal(dump.arrays["x"], [[0.5, 0.6, 0.7], [1, 2, 3]])


def test_whole_numbers_among_whole_numbers_are_a_vector_and_said(put: Put) -> None:
    dump = read(put("x.csv", b"0,1\n1,0\n-1,+2\n"))
    np.testing.assert_array_equal(dump.arrays["x"], [[0, 1], [1, 0], [-1, 2]])
    (said,) = dump.findings
    assert said.code == "csv-header"
    assert "line 1 holds the column numbers 0 to 1: read as a token's vector" in said.message


def test_column_numbers_behind_any_word_are_a_header(put: Put) -> None:
    dump = read(put("x.csv", b"id,0,1\na,.5,.6\nb,1,2\n"))
    assert dump.texts == {"tokens": ["a", "b"]}
    assert [finding.code for finding in dump.findings] == ["csv-header"]


@pytest.mark.parametrize("first", ["id", "1_000", "0x10", "null", "true"])
def test_tokens_that_are_partly_numbers_are_said(put: Put, first: str) -> None:
    dump = read(put("x.csv", f"{first},3,4\nb,5,6\n7,8,9\n".encode()))
    assert dump.texts == {"tokens": [first, "b", "7"]}
    (said,) = dump.findings
    assert (said.code, said.severity) == ("csv-tokens", "note")
    assert said.message.endswith("line 3 holds '7' there")


WRONG = [
    ("token,d0,d1,d2\nI,1,2,3\nlike,1,2\n", "line 3 has 3 cells, line 1 has 4 cells"),
    ('token,d0\n"two\nlines",1\nb\n', "line 4 has 1 cell, line 1 has 2 cells"),
    ("token,d0,d1\nI,0.5,abc\n", "line 2, column 'd1': 'abc' stands where a number is expected"),
    ('"two\nlines",1\nb,x\n', "line 3, column 1: 'x' stands where a number is expected"),
    ("1,2\n3,abc\n", "line 2, column 1: 'abc' stands where a number is expected"),
    ("d0,d1\n1,2\n\nx,3\n", "line 4, column 'd0': 'x' stands where a number is expected"),
    ("1,2\nlike,3\n", "line 2, column 0: 'like' stands where a number is expected"),
    ("token,d0\nI,\n", "line 2, column 'd0': the cell is empty where a number is expected"),
    ("d0,d1\n,1\n,2\n", "line 2, column 'd0': the cell is empty where a number is expected"),
    ("token,d0\nI,1_000\n", "line 2, column 'd0': '1_000' stands where a number is expected"),
    ("token,d0\nI,-1e999\n", "line 2, column 'd0': '-1e999' is too large for a float64"),
    ("0,5;0,6\n", "line 1, column 1: '5;0' stands where a number is expected"),
    ("token,d0,d1\n\n", "has a header but no rows: there are no tokens"),
    ("\n \n", "holds no rows: there are no tokens"),
    ("token\nI\n", "has words in its only column and no numbers"),
    ('token,d0\n"a,1\n', "line 2 cannot be split into cells: unexpected end of data"),
    ("token,d0\n\x1b[31m,\x07\n", "line 2, column 'd0': '\\x07' stands where a number is expected"),
]


@pytest.mark.parametrize("text, message", WRONG, ids=[message for _, message in WRONG])
def test_what_is_wrong_is_named_with_its_line(refuse: Refuse, text: str, message: str) -> None:
    assert refuse("x.csv", text.encode()).message == message


def test_bare_quotes_in_tsv_never_join_two_tokens(refuse: Refuse) -> None:
    error = refuse("x.tsv", b'token\td0\n"\t1\n"\t2\n')
    assert error.message.startswith("line 2 cannot be split into cells")


def test_first_column_that_may_hold_tokens_is_hinted_at(refuse: Refuse) -> None:
    assert "call the first column 'token'" in refuse("x.csv", b"1,2\nlike,3\n").hint
    assert refuse("x.csv", b"1,2\n3,like\n").hint == ""


def test_utf16_is_named(refuse: Refuse) -> None:
    error = refuse("x.tsv", "token\td0\nI\t1\n".encode("utf-16"))
    assert error.message == "is UTF-16 text where UTF-8 is expected"


def test_endless_cell(refuse: Refuse) -> None:
    error = refuse("x.csv", b"a" * 200_000 + b",1\n")
    assert "field limit" in error.message
    assert error.hint == ""
