"""NPZ: members by name, and archives that are broken, hostile or no archives."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np
import pytest

from attn_cli.formats import raw, read
from tests.unit.formats.conftest import Put, Refuse
from tests.unit.formats.test_npy_file import by_hand, header, npy_bytes

X = np.arange(12.0).reshape(3, 4)


def savez(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def zipped(*members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return stream.getvalue()


def test_arrays_by_name(put: Put) -> None:
    dump = read(put("x.npz", savez(q=X, mask=X > 3, step=np.int64(7), h=X.astype(">f2"))))
    assert (dump.format, dump.unnamed, dump.findings) == ("npz", False, ())
    assert dict(dump.dtypes) == {"q": "float64", "mask": "bool", "step": "int64", "h": "float16"}
    np.testing.assert_array_equal(dump.arrays["q"], X)
    np.testing.assert_array_equal(dump.arrays["mask"], X > 3)
    np.testing.assert_array_equal(dump.arrays["h"], X)
    assert dump.arrays["step"].shape == ()
    assert all(array.dtype.isnative for array in dump.arrays.values())


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_every_compression(put: Put, method: int) -> None:
    dump = read(put("x.npz", zipped(("q.npy", npy_bytes(X)), method=method)))
    np.testing.assert_array_equal(dump.arrays["q"], X)


def test_zeros_may_be_compressed_as_far_as_deflate_can(put: Put) -> None:
    zeros = np.zeros((1000, 1000))
    content = zipped(("q.npy", npy_bytes(zeros)), method=zipfile.ZIP_DEFLATED)
    np.testing.assert_array_equal(read(put("x.npz", content)).arrays["q"], zeros)


def test_texts_and_settings(put: Put) -> None:
    content = savez(
        x=X,
        tokens=np.array(["我", "喜欢", "🍎"]),
        context_tokens=np.array([["a", "b"]], ">U3"),
        settings=np.array(json.dumps({"heads": 2})),
        axes=np.array(json.dumps({"x": ["query", "d_model"]})),
    )
    dump = read(put("x.npz", content))
    assert dump.texts == {"tokens": ["我", "喜欢", "🍎"], "context_tokens": [["a", "b"]]}
    assert dump.settings == {"heads": 2}
    assert dump.axes == {"x": ("query", "d_model")}
    assert list(dump.arrays) == ["x"]


@pytest.mark.parametrize("settings", ["[1]", "{", "null", "[" * 10_000])
def test_settings_that_are_no_object_are_said(put: Put, settings: str) -> None:
    dump = read(put("x.npz", savez(x=X, settings=np.array(settings))))
    assert dump.settings == {}
    assert [(f.code, f.severity) for f in dump.findings] == [("ignored-metadata", "note")]


def test_other_members_are_said(put: Put) -> None:
    content = zipped(("q.npy", npy_bytes(X)), ("README\n.txt", b"hello"), ("folder/", b""))
    dump = read(put("x.npz", content))
    (said,) = dump.findings
    assert said.code == "ignored-member"
    assert r"'README\n.txt', 'folder/'" in said.message


def test_a_comment_of_the_archive_is_no_trailing_byte(put: Put) -> None:
    stream = io.BytesIO(savez(q=X))
    with zipfile.ZipFile(stream, "a") as archive:
        archive.comment = b"by hand"
    assert list(read(put("x.npz", stream.getvalue())).arrays) == ["q"]


def test_single_strings_are_told_apart(put: Put) -> None:
    dump = read(put("x.npz", savez(x=X, mask=np.array("causal"), settings=np.array("{}"))))
    assert dump.others == {"mask": "the text 'causal'"}


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="longdouble is float64 here")
def test_longdouble_is_narrowed_and_said(put: Put) -> None:
    dump = read(put("x.npz", savez(q=X.astype(np.longdouble), k=X)))
    assert dump.arrays["q"].dtype == np.float64
    assert [(f.code, f.message) for f in dump.findings] == [
        ("longdouble", "longdouble numbers read as float64: 'q'")
    ]


def flipped(content: bytes, at: bytes, bit: int = 1) -> bytes:
    """`content` with one bit flipped in the first byte after `at`."""
    changed = bytearray(content)
    changed[content.index(at) + len(at)] ^= bit
    return bytes(changed)


# Where a field of a member lies in the archive's directory, and how wide it is.
FLAGS, METHOD, CRC_32, SIZE = (8, 2), (10, 2), (16, 4), (24, 4)


def declared(content: bytes, field: tuple[int, int], value: int) -> bytes:
    """`content` with one field of its first member changed in the archive's directory."""
    changed = bytearray(content)
    at = content.index(b"PK\x01\x02") + field[0]
    changed[at : at + field[1]] = value.to_bytes(field[1], "little")
    return bytes(changed)


def overlapping(content: bytes) -> bytes:
    """`content` whose directory says of its last member that it lies where the first one does."""
    changed = bytearray(content)
    at = content.rindex(b"PK\x01\x02") + 42
    changed[at : at + 4] = bytes(4)
    return bytes(changed)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicate_names(refuse: Refuse) -> None:
    content = zipped(("q.npy", npy_bytes(X)), ("k.npy", npy_bytes(X)), ("q.npy", npy_bytes(X)))
    assert refuse("x.npz", content).message == "holds the name 'q' 2 times"
    content = zipped(("q.npy", npy_bytes(X)), ("q", npy_bytes(X)))
    assert refuse("x.npz", content).message == "holds the name 'q' 2 times"


CRC = "is damaged: the checksum (CRC-32) of its content is wrong"
BAD = [
    ("number", flipped(savez(k=X, q=X), X[1].tobytes()), f"its member 'k.npy' {CRC}"),
    (
        "crc of an empty array",
        declared(savez(q=np.zeros((0, 8))), CRC_32, 1),
        f"its member 'q.npy' {CRC}",
    ),
    ("encrypted", declared(savez(q=X), FLAGS, 1), "its member 'q.npy' is encrypted"),
    ("method", declared(savez(q=X), METHOD, 99), "its member 'q.npy' is damaged: it cannot be unp"),
    ("cut off", savez(q=X)[:-30], "is a zip archive whose directory is missing or damaged"),
    ("cut short", savez(q=X)[:100], "is a zip archive whose directory is missing or damaged"),
    ("no zip", b"hello, world", "is not a zip archive, as an .npz file is"),
    ("npy", npy_bytes(X), "is not a zip archive, as an .npz file is"),
    ("empty", zipped(), "is an empty archive"),
    ("no arrays", zipped(("a.txt", b"x")), "holds no arrays, only 'a.txt'"),
    ("only text", savez(tokens=np.array(["a"])), "holds no arrays of numbers"),
    (
        "pickle",
        zipped(("q.npy", by_hand(header("'|O'", "(1,)"), b"cos\nsystem"))),
        "'q.npy': holds dtype object, which only pickle can load",
    ),
    ("complex", savez(q=X * 1j), "'q.npy': holds dtype complex128 (complex values)"),
    ("bytes", savez(q=X, tokens=np.array([b"a"])), "'tokens.npy': holds dtype |S1"),
    (
        "three-dimensional text",
        savez(q=X, t=np.array([[["a"]]])),
        "'t.npy': holds text in 3 dimensions",
    ),
    (
        "impossible character",
        zipped(("q.npy", npy_bytes(X)), ("t.npy", by_hand(header("'<U1'", "(1,)"), b"\xff" * 4))),
        "'t.npy': holds text with impossible characters",
    ),
    (
        "member cut off",
        zipped(("q.npy", npy_bytes(X)[:-8])),
        "'q.npy': the header claims 96 bytes of numbers, the file holds 88",
    ),
    (
        "bomb in the header",
        zipped(("q.npy", by_hand(header(shape="(1000000000000,)")))),
        "'q.npy': the header claims 8,000,000,000,000 bytes of numbers, the file holds 0",
    ),
    (
        "bomb in the directory",
        declared(zipped(("q.npy", npy_bytes(X)), method=zipfile.ZIP_DEFLATED), SIZE, 2_000_000_000),
        "its member 'q.npy' claims 2,000,000,000 bytes, the",
    ),
    (
        "stored bomb",
        declared(savez(q=X), SIZE, 225),
        "its member 'q.npy' claims 225 bytes, the 224 bytes it takes in the file",
    ),
    (
        "bomb without a ratio",
        zipped(("q.npy", npy_bytes(np.zeros((3000, 3000)))), method=zipfile.ZIP_BZIP2),
        "its member 'q.npy' claims 72,000,128 bytes, the",
    ),
    ("bytes before", b"#!" + savez(q=X), "its first 2 bytes belong to no member"),
    ("bytes after", savez(q=X) + b"\0", "bytes follow the end of the archive"),
    ("overlap", overlapping(savez(k=X, q=X)), "its members 'k.npy' and 'q.npy' overlap"),
    ("hostile name", zipped(("\x1b[31m\n.npy", b"x")), r"'\x1b[31m\n.npy': does not begin like"),
]


@pytest.mark.parametrize("content, message", [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_broken_archive(refuse: Refuse, content: bytes, message: str) -> None:
    assert refuse("x.npz", content).message.startswith(message)


def test_archive_larger_than_memory_is_refused_unopened(
    refuse: Refuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "available_bytes", lambda: 1000)
    content = zipped(("q.npy", npy_bytes(np.zeros(1000))), method=zipfile.ZIP_DEFLATED)
    assert "are free" in refuse("x.npz", content).message
