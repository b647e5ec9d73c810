"""Safetensors: every dtype bit for bit, and headers that do not describe their file."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save

from attn_cli.errors import UnsupportedError
from attn_cli.formats import raw, read
from attn_cli.formats.safetensors_dtypes import BITS, DECODED
from attn_cli.formats.safetensors_file import TensorInfo, read_header
from tests.unit.formats.conftest import Put, Refuse


def entry(dtype: str, shape: list[Any], begin: Any, end: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def built(header: Any, data: bytes = b"") -> bytes:
    """A file with exactly this header: an object, or the text of one."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def all_bytes(dtype: torch.dtype) -> torch.Tensor:
    """Every value of a dtype of one or two bytes, NaNs included."""
    if dtype.itemsize == 1:
        return torch.arange(256, dtype=torch.uint8).view(dtype)
    return torch.arange(65536, dtype=torch.int32).to(torch.uint16).view(dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_narrow_floats_are_widened_exactly(put: Put, dtype: torch.dtype) -> None:
    tensor = all_bytes(dtype)
    dump = read(put("x.safetensors", save({"x": tensor})))
    np.testing.assert_array_equal(dump.arrays["x"], tensor.float().numpy(), strict=True)
    np.testing.assert_array_equal(np.signbit(dump.arrays["x"]), np.signbit(tensor.float().numpy()))
    assert dump.dtypes["x"] == str(dtype).removeprefix("torch.")
    assert dump.findings == ()


NATIVE = [
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("bool", "float16", "float32", "float64"),
]


@pytest.mark.parametrize("name", NATIVE)
def test_other_dtypes_stay_what_they_are(put: Put, name: str) -> None:
    tensor = torch.tensor([[0, 1, 1], [1, 0, 0]], dtype=getattr(torch, name))
    dump = read(put("x.safetensors", save({"x": tensor})))
    np.testing.assert_array_equal(dump.arrays["x"], tensor.numpy(), strict=True)
    assert dict(dump.dtypes) == {"x": name}
    assert not dump.unnamed


def test_every_dtype_that_is_read_was_tried() -> None:
    tried = {*NATIVE, "bfloat16", "float8_e4m3fn", "float8_e5m2"}
    assert {dtype.name for dtype in DECODED.values()} == tried


def test_metadata(put: Put) -> None:
    metadata = {
        "format": "pt",
        "settings": '{"heads": 2}',
        "tokens": '["我", "a"]',
        "context_tokens": '[["b"], ["c", "d"]]',
        "axes": '{"x": ["query", "d_model"]}',
    }
    dump = read(put("x.safetensors", save({"x": torch.zeros(2, 3)}, metadata)))
    assert dump.settings == {"heads": 2}
    assert dump.texts == {"tokens": ["我", "a"], "context_tokens": [["b"], ["c", "d"]]}
    assert dump.axes == {"x": ("query", "d_model")}
    assert dump.findings == ()


@pytest.mark.parametrize("metadata", [{"settings": "v1"}, {"tokens": "a b"}, {"tokens": "[1]"}])
def test_metadata_of_another_meaning_is_said(put: Put, metadata: dict[str, str]) -> None:
    dump = read(put("x.safetensors", save({"x": torch.zeros(2)}, metadata)))
    assert (dump.settings, dump.texts) == ({}, {})
    (said,) = dump.findings
    assert (said.code, said.severity) == ("ignored-metadata", "note")
    assert repr(next(iter(metadata))) in said.message


def test_empty_and_scalar_tensors(put: Put) -> None:
    tensors = {"a": torch.zeros(0, 8), "b": torch.tensor(3.0), "c": torch.zeros(2, 0)}
    shapes = {
        name: array.shape
        for name, array in read(put("x.safetensors", save(tensors))).arrays.items()
    }
    assert shapes == {"a": (0, 8), "b": (), "c": (2, 0)}


def test_header_alone(put: Put) -> None:
    header = {"w": entry("F4", [2, 3], 0, 3), "s": entry("F8_E8M0", [2], 3, 5)}
    tensors = read_header(Path(put("x.safetensors", built(header, b"\0" * 5))))
    assert dict(tensors) == {
        "w": TensorInfo("F4", (2, 3), (0, 3)),
        "s": TensorInfo("F8_E8M0", (2,), (3, 5)),
    }


@pytest.mark.parametrize("dtype", sorted(set(BITS) - set(DECODED)))
def test_dtypes_that_are_not_computed_with(refuse: Refuse, dtype: str) -> None:
    count = BITS[dtype]
    error = refuse("x.safetensors", built({"w": entry(dtype, [8], 0, count)}, b"\0" * count))
    assert isinstance(error, UnsupportedError)
    assert error.message == f"tensor 'w' has dtype {dtype}, which attn does not compute with"
    assert "BF16" in error.hint


F32 = entry("F32", [2, 2], 0, 16)
BAD = [
    ("short", b"\0" * 7, "is 7 bytes long; the length of a header alone takes 8"),
    ("long", built(b"{}")[:8] + b"", "its header should take 2 bytes, the file has 8 in all"),
    (
        "lying",
        struct.pack("<Q", 5000) + b"{}",
        "its header should take 5,000 bytes, the file has 10",
    ),
    ("huge", b"\xff" * 16, "its header should take 18,446,744,073,709,551,615 bytes"),
    ("text", built(b"hello"), "its header is not valid JSON at character 0: Expecting value"),
    ("cut", built(b'{"q": {'), "its header is not valid JSON at character 7"),
    ("latin", built(b'{"\xe9": 1}'), "its header is not UTF-8 text (byte 2)"),
    ("deep", built(b"[" * 200_000), "its header is not valid JSON"),
    ("digits", built(b'{"q": ' + b"9" * 5000 + b"}"), "its header is not valid JSON"),
    ("list", built([1]), "its header is JSON but no object"),
    ("twice", built(b'{"q": 1, "q": 2}'), "its header holds the name 'q' twice"),
    ("metadata", built({"__metadata__": {"a": 1}}), "the __metadata__ of its header is no object"),
    ("none", built({}), "holds no tensors"),
    ("only metadata", built({"__metadata__": {"a": "b"}}), "holds no tensors"),
    ("number", built({"q": 1}), "tensor 'q' is not described by an object"),
    ("no shape", built({"q": {"dtype": "F32"}}), "tensor 'q' lacks a dtype, a shape or data_off"),
    ("negative", built({"q": entry("F32", [-1], 0, 4)}), "tensor 'q' lacks a dtype, a shape"),
    ("float", built({"q": entry("F32", [1.0], 0, 4)}), "tensor 'q' lacks a dtype, a shape"),
    ("true", built({"q": entry("F32", [True], 0, 4)}), "tensor 'q' lacks a dtype, a shape"),
    ("dtype", built({"q": entry("F7", [1], 0, 1)}, b"\0"), "tensor 'q' has the unknown dtype 'F7'"),
    ("backwards", built({"q": entry("F32", [1], 4, 0)}), "tensor 'q' has data_offsets '[4, 0]'"),
    (
        "size",
        built({"q": entry("F32", [3, 3], 0, 8)}, b"\0" * 8),
        "tensor 'q' of shape [3, 3] and dtype F32 takes 36 bytes, its data_offsets span 8",
    ),
    (
        "half a byte",
        built({"q": entry("F4", [3], 0, 1)}, b"\0"),
        "tensor 'q' of shape [3] and dtype F4 takes 2 bytes, its data_offsets span 1",
    ),
    (
        "beyond",
        built({"q": F32, "k": entry("F32", [2], 4096, 4104)}, b"\0" * 24),
        "tensor 'k' should end at byte 4,104 of the data, the file holds 24 bytes of data",
    ),
    ("truncated", built({"q": F32}, b"\0" * 12), "tensor 'q' should end at byte 16 of the data"),
    (
        "enormous",
        built({"q": entry("F64", [1 << 50], 0, 1 << 53)}, b"\0" * 8),
        "tensor 'q' should end at byte 9,007,199,254,740,992 of the data, the file holds 8",
    ),
    (
        "overflow",
        built({"q": entry("U8", [1 << 40, 1 << 40], 0, 1 << 80)}),
        "tensor 'q' has the impossible shape [1099511627776, 1099511627776]",
    ),
    (
        "dimensions",
        built({"q": entry("U8", [1] * 40, 0, 1)}, b"\0"),
        "tensor 'q' has the impossible",
    ),
    (
        "overlap",
        built({"q": F32, "k": entry("F32", [2], 12, 20)}, b"\0" * 20),
        "tensors 'q' and 'k' overlap",
    ),
    (
        "same bytes",
        built({"q": F32, "k": F32}, b"\0" * 16),
        "tensors 'q' and 'k' overlap",
    ),
    (
        "hole",
        built({"q": F32, "k": entry("F32", [1], 24, 28)}, b"\0" * 28),
        "bytes 16 to 24 of its data belong to no tensor",
    ),
    ("late", built({"q": entry("U8", [1], 4, 5)}, b"\0" * 5), "bytes 0 to 4 of its data belong to"),
    ("trailing", built({"q": F32}, b"\0" * 20), "holds 20 bytes of data, its tensors take only 16"),
    (
        "bool",
        built({"m": entry("BOOL", [3], 0, 3)}, b"\0\x01\x07"),
        "tensor 'm': a bool array holds the byte 7 at 2, not 0 or 1",
    ),
    (
        "name",
        built({"\x1b[31m\n": entry("F7", [1], 0, 1)}, b"\0"),
        r"tensor '\x1b[31m\n' has the unknown dtype",
    ),
]


@pytest.mark.parametrize("content, message", [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_broken_file(refuse: Refuse, content: bytes, message: str) -> None:
    assert refuse("x.safetensors", content).message.startswith(message)


def test_widened_tensors_must_fit_into_memory(
    refuse: Refuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = save({"x": torch.zeros(100).to(torch.float8_e5m2)})
    monkeypatch.setattr(raw, "available_bytes", lambda: 399)
    assert "are free" in refuse("x.safetensors", content).message


def test_large_tensors_stay_in_the_file_and_those_that_are_widened_do_not(
    put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "MAPPED", 64)
    tensors = {
        "a": torch.arange(32.0),
        "b": torch.arange(32).to(torch.bfloat16),
        "c": torch.arange(9.0),
        "d": torch.arange(32, dtype=torch.float16),
        "e": torch.ones(64, dtype=torch.bool),
    }
    arrays = read(put("x.safetensors", save(tensors))).arrays
    for name, tensor in tensors.items():
        wide = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
        np.testing.assert_array_equal(arrays[name], wide.numpy(), err_msg=name)
    stay = {name for name, array in arrays.items() if isinstance(array.base, np.memmap)}
    assert stay == {"a", "d"}


def test_a_tensor_at_an_odd_byte_is_read(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "MAPPED", 1)
    header = {"a": entry("U8", [1], 0, 1), "b": entry("F32", [2], 1, 9)}
    data = b"\1" + np.array([1.5, -2], "<f4").tobytes()
    array = read(put("x.safetensors", built(header, data))).arrays["b"]
    np.testing.assert_array_equal(array, [1.5, -2])
    assert not isinstance(array.base, np.memmap)
