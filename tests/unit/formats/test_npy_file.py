"""NPY: headers that numpy writes, and headers that claim what the file does not hold."""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any

import numpy as np
import pytest
from numpy.lib import format as npy

from attn_cli.formats import raw, read
from tests.unit.formats.conftest import Put, Refuse

X = np.arange(12.0).reshape(3, 4)


def npy_bytes(array: Any, version: tuple[int, int] | None = None) -> bytes:
    """What numpy itself writes."""
    stream = io.BytesIO()
    npy.write_array(stream, np.asanyarray(array), version=version)
    return stream.getvalue()


def by_hand(header: str, content: bytes = b"", *, version: int = 1) -> bytes:
    """A file with exactly this header."""
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode("utf-8") + content


def header(descr: str = "'<f8'", shape: str = "(2,)", fortran: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize(
    "array",
    [X, X.astype("<f4"), X.astype(">f8"), X.astype(">f2"), X.T, X[:, ::2], X.astype(">i2"), X > 3],
    ids=["f8", "f4", "big f8", "big f2", "fortran", "strided", "big i2", "bool"],
)
def test_every_layout_reads_as_the_same_numbers(
    put: Put, array: np.ndarray[Any, Any], version: tuple[int, int]
) -> None:
    dump = read(put("x.npy", npy_bytes(array, version)))
    x = dump.arrays["x"]
    np.testing.assert_array_equal(x, array, strict=False)
    assert x.dtype == array.dtype.newbyteorder("=")
    assert x.dtype.isnative
    assert x.flags.c_contiguous
    assert (dump.unnamed, dict(dump.dtypes)) == (True, {"x": array.dtype.name})


@pytest.mark.parametrize("array", [np.float64(3), np.zeros((0, 8)), np.zeros((1, 2, 3, 4, 5))])
def test_odd_shapes_are_left_to_whoever_understands_them(put: Put, array: Any) -> None:
    assert read(put("x.npy", npy_bytes(array))).arrays["x"].shape == array.shape


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="longdouble is float64 here")
def test_longdouble_is_narrowed_and_said(put: Put) -> None:
    dump = read(put("x.npy", npy_bytes(np.array([1, 0.25, np.nan], np.longdouble))))
    np.testing.assert_array_equal(dump.arrays["x"], np.array([1, 0.25, np.nan]), strict=True)
    (said,) = dump.findings
    assert (said.code, said.severity) == ("longdouble", "note")
    assert dump.dtypes["x"] == "float64"


def test_header_that_python_2_wrote(put: Put) -> None:
    content = by_hand(header(shape="(2L,)"), np.array([1.0, 2.0]).tobytes())
    np.testing.assert_array_equal(read(put("x.npy", content)).arrays["x"], [1, 2])


class Canary:
    """Unpickling it would fail the test."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("the pickle was loaded",))


def test_object_array_is_refused_unloaded(refuse: Refuse) -> None:
    content = by_hand(header("'|O'", "(1,)"), pickle.dumps([Canary()]))
    error = refuse("x.npy", content)
    assert error.message.startswith("holds dtype object, which only pickle can load")


@pytest.mark.parametrize(
    "array, dtype",
    [
        (np.array(["a", "b"]), "<U1 (text values)"),
        (np.array([b"ab"]), "|S2 (bytes values)"),
        (np.array([1j]), "complex128 (complex values)"),
        (np.array(["2026-11-29"], "M8[D]"), "datetime64[D] (datetime values)"),
        (np.array([1], "m8[s]"), "timedelta64[s] (timedelta values)"),
        (np.zeros(2, [("a", "f4"), ("b", "i4")]), "|V8 (structured or raw values)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_dtypes_are_refused_by_name(refuse: Refuse, array: Any, dtype: str) -> None:
    assert refuse("x.npy", npy_bytes(array)).message == (
        f"holds dtype {dtype} where numbers are expected"
    )


BAD = [
    (by_hand(header(shape="(10**18,)"), b"\0" * 64), "its header is damaged"),
    (
        by_hand(header(shape="(1000000000000000000,)"), b"\0" * 64),
        "the header claims 8,000,000,000,000,000,000 bytes of numbers, the file holds 64",
    ),
    (npy_bytes(X)[:-40], "the header claims 96 bytes of numbers, the file holds 56"),
    (npy_bytes(X) + b"\0", "the header claims 96 bytes of numbers, the file holds 97"),
    (npy_bytes(X) + npy_bytes(X), "the header claims 96 bytes of numbers, the file holds 320"),
    (
        by_hand(header(shape="(0, 4611686018427387904, 4)")),
        "its header claims the impossible shape",
    ),
    (by_hand(header(shape="(-2,)"), b"\0" * 16), "its header claims the impossible shape (-2,)"),
    (by_hand(header(shape="(True, 2)"), b"\0" * 16), "its header claims the impossible shape"),
    (by_hand(header(shape=str((1,) * 40)), b"\0" * 8), "its header claims the impossible shape"),
    (by_hand(header("'|b1'"), b"\x01\x02"), "a bool array holds the byte 2 at 1, not 0 or 1"),
    (by_hand(header("'<f9'")), "its header is damaged"),
    (by_hand(header("'<f8', 'extra': 1")), "its header is damaged"),
    (by_hand(header(fortran="2")), "its header is damaged"),
    (by_hand("(" * 5000), "its header is damaged"),
    (by_hand("{'descr': __import__('os')}"), "its header is damaged"),
    (by_hand("x" * 20_000), "its header takes 20,000 bytes; at most 10,000 are read"),
    (b"\x93NUMPY\x02\x00" + b"\xff" * 4, "its header should take 4,294,967,295 bytes"),
    (b"\x93NUMPY\x01\x00", "its header should take 0 bytes, the file has 8 in all"),
    (b"\x93NUMPY\x04\x00\x00\x00", "is of .npy version 4.0; 1.0 to 3.0 are known"),
    (b"\x93NUM", "does not begin like an .npy file"),
    (b"PK\x03\x04", "does not begin like an .npy file"),
]


@pytest.mark.parametrize("content, message", BAD, ids=[message for _, message in BAD])
def test_broken_file(refuse: Refuse, content: bytes, message: str) -> None:
    assert refuse("x.npy", content).message.startswith(message)


def test_file_larger_than_memory_is_refused_before_it_is_read(
    put: Put, refuse: Refuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "available_bytes", lambda: 95)
    error = refuse("x.npy", npy_bytes(X))
    assert error.message == "its arrays take 96 B of memory, and 95 B are free"
    for unknown_or_enough in (None, 96):
        monkeypatch.setattr(raw, "available_bytes", lambda free=unknown_or_enough: free)
        np.testing.assert_array_equal(read(put("x.npy", npy_bytes(X))).arrays["x"], X)


def test_a_file_that_ends_in_its_magic(refuse: Refuse) -> None:
    assert refuse("x.npy", b"\x93NUMPY\x01").message == "ends within its header"


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of 64 bytes are as large as to stay in their files."""
    monkeypatch.setattr(raw, "MAPPED", 64)


@pytest.mark.usefixtures("large")
def test_a_large_array_stays_in_its_file(put: Put) -> None:
    x = read(put("x.npy", npy_bytes(X))).arrays["x"]
    np.testing.assert_array_equal(x, X)
    assert type(x) is np.ndarray
    assert isinstance(x.base, np.memmap)
    assert not x.flags.writeable


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("array", [X.astype(">f8"), np.asfortranarray(X), X > 3, X[0]])
def test_what_must_be_turned_or_is_small_is_read(put: Put, array: np.ndarray[Any, Any]) -> None:
    x = read(put("x.npy", npy_bytes(array))).arrays["x"]
    np.testing.assert_array_equal(x, array)
    assert not isinstance(x.base, np.memmap)


@pytest.mark.usefixtures("large")
def test_a_large_array_needs_no_memory(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "available_bytes", lambda: 1)
    assert read(put("x.npy", npy_bytes(X))).arrays["x"].shape == (3, 4)


@pytest.mark.usefixtures("large")
def test_a_large_file_that_is_cut_off_is_refused(refuse: Refuse) -> None:
    said = refuse("x.npy", npy_bytes(X)[:-8])
    assert "claims 96 bytes of numbers, the file holds 88" in said.message
