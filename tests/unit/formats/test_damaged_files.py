"""Damaged files of every format: an error of ours or an array, quickly; never anything else."""

from __future__ import annotations

import io
import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from attn_cli.errors import AttnError
from attn_cli.formats import READERS, read
from attn_cli.formats.write import write

ROUNDS = 200
SECONDS = 5.0  # for one file; the slowest takes milliseconds
X = np.arange(12.0).reshape(3, 4)


def as_json(_: Path) -> bytes:
    value = {"tokens": ["a", "苹"], "x": X.tolist(), "m": [[True]], "settings": {"heads": 2}}
    return json.dumps(value, ensure_ascii=False).encode()


def as_csv(_: Path) -> bytes:
    return 'token,d0,d1\nI,0.5,1\n"a ""q""",2,nan\n苹果,1e3,-inf\n'.encode()


def as_tsv(path: Path) -> bytes:
    return as_csv(path).replace(b",", b"\t")


def as_npy(_: Path) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.asfortranarray(X))
    return stream.getvalue()


def as_npz(_: Path) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, q=X, m=X > 3, tokens=np.array(["a", "b"]), settings=np.array("{}"))
    return stream.getvalue()


def as_safetensors(folder: Path) -> bytes:
    path = folder / "valid.safetensors"
    arrays = {"q": X, "k": X.astype(np.float32), "m": X > 3, "h": X.astype(np.float16)}
    write(path, arrays, dtypes={"k": "bfloat16"}, settings={"heads": 2}, texts={"tokens": ["a"]})
    return path.read_bytes()


def as_pt(_: Path) -> bytes:
    stream = io.BytesIO()
    torch.save({"q": torch.ones(3, 4), "tokens": ["a"], "n": {"m": torch.ones(2) > 0}}, stream)
    return stream.getvalue()


def as_pth(_: Path) -> bytes:
    stream = io.BytesIO()
    torch.save({"q": torch.ones(3, 4)}, stream, _use_new_zipfile_serialization=False)
    return stream.getvalue()


VALID: dict[str, Callable[[Path], bytes]] = {
    ".json": as_json,
    ".csv": as_csv,
    ".tsv": as_tsv,
    ".npy": as_npy,
    ".npz": as_npz,
    ".safetensors": as_safetensors,
    ".pt": as_pt,
    ".pth": as_pth,
}


def damaged(content: bytes, chance: random.Random) -> bytes:
    """`content` with one to four bytes changed, cut out, put in or copied, or with its end gone."""
    changed = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(changed) + 1)
        kind = chance.randrange(6)
        if kind == 0:
            changed[at : at + 1] = chance.randbytes(1)
        elif kind == 1:
            changed[at : at + 1] = chance.choice(
                [b"9", b'"', b"[", b"}", b",", b"-", b"\0", b"\xff"]
            )
        elif kind == 2:
            del changed[at : at + chance.randint(1, 16)]
        elif kind == 3:
            changed[at:at] = chance.randbytes(chance.randint(1, 8))
        elif kind == 4:
            source = chance.randrange(len(changed) + 1)
            changed[at : at + 8] = changed[source : source + 8]
        elif chance.random() < 0.3:
            del changed[at:]
    return bytes(changed)


def test_every_format_is_tried() -> None:
    assert list(VALID) == list(READERS)


@pytest.mark.parametrize("suffix", list(VALID))
def test_damage_is_an_error_or_an_array(tmp_path: Path, suffix: str) -> None:
    content = VALID[suffix](tmp_path)
    path = tmp_path / f"x{suffix}"
    path.write_bytes(content)
    assert read(str(path)).arrays, "the undamaged file is read"
    chance = random.Random(suffix)
    errors = 0
    for _ in range(ROUNDS):
        path.write_bytes(damaged(content, chance))
        started = time.perf_counter()
        said = attempt(str(path))
        assert time.perf_counter() - started < SECONDS
        assert said is None or (said.isprintable() and said.count(str(path)) == 1), said
        errors += said is not None
    assert errors > ROUNDS / 4


def attempt(path: str) -> str | None:
    """What reading says, None where it succeeds; any other error than ours passes through."""
    try:
        arrays = read(path).arrays
    except AttnError as error:
        return str(error)
    assert all(array.flags.c_contiguous and array.dtype.isnative for array in arrays.values())
    return None
