"""Headers of every format: what `read` gives, without its numbers, at once, however large."""

from __future__ import annotations

import io
import json
import random
import struct
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from attn_cli.core.blank import Blank
from attn_cli.errors import AttnError, InputError
from attn_cli.formats import READERS, headers_reader, read, read_headers

GIB = 1 << 30


def arrays() -> dict[str, Any]:
    return {
        "q": np.zeros((1, 2, 3, 4), np.float16),
        "k": np.zeros((1, 1, 5, 4), np.float32),
        "mask": np.ones((3, 5), np.bool_),
        "lengths": np.array([3], np.int32),
    }


def npy(path: Path) -> None:
    np.save(path, np.asfortranarray(np.zeros((3, 4), ">f4")))


def npz(path: Path) -> None:
    words: dict[str, Any] = {"tokens": np.array(["a", "b"]), "settings": np.array('{"heads": 2}')}
    np.savez_compressed(path, **arrays(), **words)


def safetensors(path: Path) -> None:
    tensors = {name: torch.from_numpy(array) for name, array in arrays().items()}
    tensors["v"] = torch.zeros(1, 1, 5, 4, dtype=torch.bfloat16)
    tensors["w"] = torch.zeros(5, dtype=torch.float8_e4m3fn)
    save_file(tensors, path, metadata={"settings": '{"scale": "none"}'})


def pt(path: Path) -> None:
    value = {"layer": {"q": torch.zeros(2, 3, dtype=torch.bfloat16)}, "tokens": ["a", "b"]}
    torch.save(value | {"settings": {"heads": 1}, "lengths": [2, 1]}, path)


def old_pt(path: Path) -> None:
    torch.save(torch.zeros(2, 3), path, _use_new_zipfile_serialization=False)


def text(path: Path) -> None:
    path.write_text(json.dumps({"x": [[1, 2], [3, 4]], "tokens": ["a", "b"]}))


def csv(path: Path) -> None:
    path.write_text("d0,d1\n1,2\n")


MADE: dict[str, tuple[str, Callable[[Path], None]]] = {
    "npy": ("a.npy", npy),
    "npz": ("a.npz", npz),
    "safetensors": ("a.safetensors", safetensors),
    "pt": ("a.pt", pt),
    "old pt": ("a.pth", old_pt),
    "json": ("a.json", text),
    "csv": ("a.csv", csv),
}


@pytest.mark.parametrize("suffix", list(READERS))
def test_every_format_reads_headers(suffix: str) -> None:
    assert headers_reader(suffix).__module__ == READERS[suffix].__module__


@pytest.mark.parametrize("name", MADE)
def test_headers_say_what_reading_says(tmp_path: Path, name: str) -> None:
    called, make = MADE[name]
    path = tmp_path / called
    make(path)
    whole, headers = read(str(path)), read_headers(str(path))
    assert {n: (a.shape, a.dtype) for n, a in headers.arrays.items()} == {
        n: (a.shape, a.dtype) for n, a in whole.arrays.items()
    }
    for field in ("format", "dtypes", "texts", "settings", "axes", "unnamed", "others", "findings"):
        assert getattr(headers, field) == getattr(whole, field), field
    if name not in ("json", "csv"):
        assert headers.sha256 == ""
        written = {"lengths"} if name == "pt" else set()
        blanks = {n for n, array in headers.arrays.items() if isinstance(array, Blank)}
        assert blanks == set(headers.arrays) - written


def sparse(path: Path, head: bytes, size: int) -> None:
    """A file that claims and has `size` bytes behind its head, and takes none of them."""
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + size)


def npy_head(shape: tuple[int, ...]) -> bytes:
    stream = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_2_0(stream, header)
    return stream.getvalue()


def test_a_hundred_gibibytes_of_npy(tmp_path: Path) -> None:
    path = tmp_path / "large.npy"
    sparse(path, npy_head((25, GIB)), 100 * GIB)
    start = time.monotonic()
    assert read_headers(str(path)).arrays["x"].shape == (25, GIB)
    assert time.monotonic() - start < 5


def test_a_hundred_gibibytes_of_safetensors(tmp_path: Path) -> None:
    entry = {"dtype": "BF16", "shape": [50, GIB], "data_offsets": [0, 100 * GIB]}
    head = json.dumps({"q": entry}).encode()
    path = tmp_path / "large.safetensors"
    sparse(path, struct.pack("<Q", len(head)) + head, 100 * GIB)
    dump = read_headers(str(path))
    assert dump.arrays["q"].shape == (50, GIB)
    assert dump.dtypes["q"] == "bfloat16"


def test_a_member_of_npz_is_read_no_further_than_its_header(tmp_path: Path) -> None:
    path = tmp_path / "damaged.npz"
    with zipfile.ZipFile(path, "w") as archive, archive.open("q.npy", "w") as member:
        np.lib.format.write_array(member, np.zeros((100, 100)))
    content = bytearray(path.read_bytes())
    content[5000] ^= 255  # a number; its checksum is wrong then
    path.write_bytes(content)
    with pytest.raises(InputError, match="CRC"):
        read(str(path))
    assert read_headers(str(path)).arrays["q"].shape == (100, 100)


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("a.npy", npy_head((2, 3)) + b"\0" * 23, "claims 24 bytes"),
        ("a.npy", npy_head((1 << 50, 1 << 50)), "impossible shape"),
        ("a.npy", b"\x93NUMPY\x01", "ends within its header"),
        ("a.npz", b"PK\x03\x04rest", "directory is missing"),
        ("a.safetensors", struct.pack("<Q", 1 << 60) + b"{}", "its header should take"),
        ("a.pt", b"no zip", "damaged"),
    ],
)
def test_damaged_headers(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(AttnError, match=words):
        read_headers(str(path))


def test_pickles_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save({"q": torch.zeros(2), "fraction": pytest.Session}, path)
    with pytest.raises(InputError, match="only pickle can load"):
        read_headers(str(path))


@pytest.mark.parametrize("name", ["npy", "npz", "safetensors", "pt"])
def test_damaged_bytes_are_refused_or_read(tmp_path: Path, name: str) -> None:
    called, make = MADE[name]
    path = tmp_path / called
    make(path)
    content, draws = path.read_bytes(), random.Random(name)
    for _ in range(60):
        damaged = bytearray(content[: draws.randrange(len(content) + 1)])
        for _ in range(3 if damaged else 0):
            damaged[draws.randrange(len(damaged))] = draws.randrange(256)
        path.write_bytes(damaged)
        with suppress(AttnError):
            assert read_headers(str(path)).arrays
