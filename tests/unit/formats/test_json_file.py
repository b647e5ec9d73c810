"""JSON: what its lists mean, and where something stands that is no number."""

from __future__ import annotations

import codecs

import numpy as np
import pytest

from attn_cli.formats import read
from tests.unit.formats.conftest import Put, Refuse


def test_bare_list_is_unnamed(put: Put) -> None:
    dump = read(put("x.json", b"[[1, -2.5], [3e2, 0]]"))
    assert dump.unnamed
    assert dict(dump.dtypes) == {"x": "json"}
    assert dump.arrays["x"].dtype == np.float64
    np.testing.assert_array_equal(dump.arrays["x"], [[1, -2.5], [300, 0]])


def test_object_holds_arrays_texts_and_settings(put: Put) -> None:
    text = """{
        "tokens": ["我", "喜欢", "🍎"], "vectors": [[1, 0], [0, 1], [1, 1]],
        "mask": [[true, false, false], [true, true, false], [true, true, true]],
        "settings": {"heads": 2, "mask": "causal", "scale": 0.5}
    }"""
    dump = read(put("x.json", text.encode()))
    assert not dump.unnamed
    assert dump.texts == {"tokens": ["我", "喜欢", "🍎"]}
    assert dump.settings == {"heads": 2, "mask": "causal", "scale": 0.5}
    assert isinstance(dump.settings["heads"], int)
    assert dict(dump.dtypes) == {"vectors": "json", "mask": "bool"}
    np.testing.assert_array_equal(dump.arrays["mask"], np.tri(3, dtype=bool))
    assert dump.findings == ()


def test_tokens_of_a_batch_may_differ_in_number(put: Put) -> None:
    dump = read(put("x.json", b'{"tokens": [["a", "b"], ["c"]], "x": [[[1], [2]], [[3], [0]]]}'))
    assert dump.texts == {"tokens": [["a", "b"], ["c"]]}
    assert dump.arrays["x"].shape == (2, 2, 1)


def test_nan_and_infinity_are_numbers(put: Put) -> None:
    x = read(put("x.json", b"[[NaN, Infinity, -Infinity]]")).arrays["x"]
    np.testing.assert_array_equal(x, [[np.nan, np.inf, -np.inf]])


def test_byte_order_mark_is_skipped(put: Put) -> None:
    x = read(put("x.json", codecs.BOM_UTF8 + b"[[1, 2]]")).arrays["x"]
    np.testing.assert_array_equal(x, [[1, 2]])


def test_large_integers_are_rounded_to_nearest(put: Put) -> None:
    x = read(put("x.json", b"[[9007199254740993, " + b"9" * 308 + b"]]")).arrays["x"]
    np.testing.assert_array_equal(x, [[9007199254740992.0, 1e308]])


def test_keys_that_are_no_lists_are_said(put: Put) -> None:
    text = b'{"x": [[1]], "scale": 2, "name": "a", "mask": null, "more": {"y": [1]}}'
    (said,) = read(put("x.json", text)).findings
    assert (said.code, said.severity) == ("ignored-key", "note")
    assert "'name', 'mask', 'more'" in said.message


def test_unknown_lists_are_left_to_whoever_understands_them(put: Put) -> None:
    dump = read(put("x.json", b'{"words": ["a"], "emb": [[1.0, 2.0]], "none": []}'))
    assert dump.texts == {"words": ["a"]}
    assert {name: array.shape for name, array in dump.arrays.items()} == {
        "emb": (1, 2),
        "none": (0,),
    }


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "utf-32-le"])
def test_other_encodings_are_named(refuse: Refuse, encoding: str) -> None:
    error = refuse("x.json", '{"tokens": ["猫"], "x": [[1]]}'.encode(encoding))
    assert error.message == f"is {encoding.upper()} text where UTF-8 is expected"


def test_not_utf8(refuse: Refuse) -> None:
    error = refuse("x.json", b'{"x": [[1]],\n"tokens": ["\xe9"]}')
    assert error.message == "is not UTF-8 text: line 2 holds the byte 0xe9"


@pytest.mark.parametrize(
    "content, kind",
    [
        (b"\x93NUMPY\x01\x00", "an .npy file"),
        (b"PK\x03\x04....", "a zip archive (.npz or .pt)"),
        (b'\x40\0\0\0\0\0\0\0{"q":', "a .safetensors file"),
    ],
)
def test_binary_content_is_recognised(refuse: Refuse, content: bytes, kind: str) -> None:
    assert refuse("x.json", content).message == f"is not text but {kind}"


@pytest.mark.parametrize(
    "text, message",
    [
        ("[[1, 2], [3, 4]", "line 1, column 16: Expecting ',' delimiter"),
        ('{"a": "b', "line 1, column 7: Unterminated string starting at"),
        ("  \n ", "line 2, column 2: Expecting value"),
    ],
)
def test_cut_off_text_names_line_and_column(refuse: Refuse, text: str, message: str) -> None:
    error = refuse("x.json", text.encode())
    assert error.message == f"is not valid JSON at {message}"
    assert error.hint == "the text ends too early: is the file cut off?"


def test_broken_text_names_line_and_column(refuse: Refuse) -> None:
    error = refuse("x.json", b"[[1,\n2],\n[3,4}]")
    assert error.message == "is not valid JSON at line 3, column 5: Expecting ',' delimiter"
    assert error.hint == ""


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 50_000 + "1" + "}" * 50_000])
def test_deep_nesting(refuse: Refuse, text: str) -> None:
    assert refuse("x.json", text.encode()).message == "is nested too deeply to be read"


def test_nesting_beyond_any_array(refuse: Refuse) -> None:
    error = refuse("x.json", b"[" * 40 + b"1" + b"]" * 40)
    assert error.message == "lists are nested more than 32 deep"


PLACES = [
    # ragged rows, at any depth
    ("[[1, 2, 3], [4, 5, 6], [7, 8]]", "row 2 has 2 numbers, row 0 has 3"),
    ("[[1], [1, 2]]", "row 1 has 2 numbers, row 0 has 1"),
    ("[[[1, 2], [3, 4]], [[5, 6], [7]]]", "item 1, row 1 has 1 number, item 0, row 0 has 2"),
    ("[[[1, 2], [3, 4]], [[5, 6]]]", "item 1 has 1 row, item 0 has 2"),
    ("[[[[1, 2]], [[3]]]]", "item (0, 1), row 0 has 1 number, item (0, 0), row 0 has 2"),
    ("[[1, 2], 3]", "row 1 is the number 3 where a list of 2 numbers is expected"),
    ("[1, [2]]", "position 1 is a list where a number is expected"),
    # other things than numbers
    ("[[1.0, true], [2, 3]]", "row 0, column 1 is true where a number is expected"),
    ("[[1, 2], [null, 3]]", "row 1, column 0 is null where a number is expected"),
    ('[["0.5", "1"], ["2", "x"]]', "row 0, column 0 is the text '0.5' where a number is expected"),
    ('[["a", "b"]]', "row 0, column 0 is the text 'a' where a number is expected"),
    ('["a"]', "position 0 is the text 'a' where a number is expected"),
    ('[[1, "inf"]]', "row 0, column 1 is the text 'inf' where a number is expected"),
    ('[{"x": 1}]', "position 0 is an object where a number is expected"),
    ("[[[1, 2], [3, false]]]", "item 0, row 1, column 1 is false where a number is expected"),
    # numbers that no float64 can hold
    (
        f"[[{'1' + 400 * '0'}]]",
        "row 0, column 0 is too large for a float64: 100000000000… (401 dig",
    ),
    (f"[[1, {5000 * '9'}]]", "row 0, column 1 is too large for a float64: 999999999999… (5000 dig"),
    ("[[1, -1e999]]", "row 0, column 1 is too large for a float64: -1e999"),
    # arrays with a name
    ('{"x": [[1, 2], [3]]}', "row 1 of 'x' has 1 number, row 0 has 2"),
    ('{"x": [[1, "a"]]}', "row 0, column 1 of 'x' is the text 'a' where a number is expected"),
    ('{"x": [[1]], "m": [[true, true, 0]]}', "row 0, column 2 of 'm' is the number 0 where true"),
    ('{"tokens": ["a", 7, "b"]}', "position 1 of 'tokens' is the number 7 where text is expected"),
    # the whole
    ("[]", "holds an empty list: there are no tokens"),
    ("3", "holds the number 3 where rows of numbers are expected"),
    ("1e999", "holds a number too large for a float64 where rows of numbers are expected"),
    ("null", "holds null where rows of numbers are expected"),
    ("{}", "holds no lists of numbers"),
    ('{"tokens": ["a"]}', "holds no lists of numbers; found 'tokens'"),
    ('{"x": [[1]], "x": [[2]]}', "the key 'x' occurs twice in one object"),
    ('{"x": [[1]], "settings": [2]}', "'settings' is a list where an object is expected"),
    (
        '{"x": [[1]], "settings": {"scale": [1e999]}}',
        "the setting 'scale' holds a number too large",
    ),
]


@pytest.mark.parametrize("text, message", PLACES, ids=[message for _, message in PLACES])
def test_what_is_wrong_is_named_with_its_place(refuse: Refuse, text: str, message: str) -> None:
    assert refuse("x.json", text.encode()).message.startswith(message)


def test_hostile_names_are_escaped(refuse: Refuse) -> None:
    error = refuse("x.json", b'{"a\\u001b[31m\\n\\u202e": [[1, "\\u0007"]]}')
    assert r"of 'a\x1b[31m\n\u202e' is the text '\x07'" in error.message


def test_long_names_are_cut(refuse: Refuse) -> None:
    error = refuse("x.json", b'{"' + b"n" * 5000 + b'": [[null]]}')
    assert len(error.message) < 200


def test_rows_of_text_are_no_numbers(refuse: Refuse) -> None:
    error = refuse("x.json", b'{"x": [["0.5", "1"]], "tokens": [["a", "b"]]}')
    assert error.message == "row 0, column 0 of 'x' is the text '0.5' where a number is expected"


def test_what_is_not_read_is_told_apart(put: Put) -> None:
    text = '{"x": [[1]], "mask": "causal", "bias": null, "about": {"a": 1}, "n": 1e999, "b": true}'
    dump = read(put("x.json", text.encode()))
    assert dump.others == {
        "mask": "the text 'causal'",
        "bias": "null",
        "about": "an object",
        "n": "a number too large for a float64",
        "b": "true",
    }
