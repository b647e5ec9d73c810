"""write: what is read again, what other libraries read, and what is never left half done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors import safe_open

from attn_cli.errors import InputError, UnsupportedError
from attn_cli.formats import read
from attn_cli.formats.write import WRITERS, check_target, write

RNG = np.random.default_rng(0)
ARRAYS: dict[str, NDArray[Any]] = {
    "weights": RNG.random((1, 2, 3, 3)),
    "mask": RNG.random((3, 3)) > 0.5,
    "x": RNG.standard_normal((3, 8)).astype(np.float32),
    "half": RNG.standard_normal((3, 8)).astype(">f2").T,
    "lengths": np.array([3]),
    "lse": np.array([[[-np.inf, np.nan, 0.5]]]),
    "scale": np.array(0.5),
}
SETTINGS = {"heads": 2, "scale": 0.5, "mask": "causal & window(4)", "softcap": None}
TEXTS = {"tokens": ["我", "a\0", "\ud800", '"', ""], "context_tokens": [["b"], ["c", "d"]]}
AXES = {"weights": ("batch", "head", "query", "key")}
SUFFIXES = list(WRITERS)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_written_is_read_again(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"trace{suffix}"
    write(path, ARRAYS, axes=AXES, settings=SETTINGS, texts=TEXTS)
    dump = read(str(path))
    assert set(dump.arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(dump.arrays[name], array)
        assert dump.arrays[name].shape == array.shape
        assert dump.dtypes[name] == array.dtype.name
    assert dump.settings == SETTINGS
    assert dump.texts == TEXTS
    assert dump.axes == AXES
    assert dump.findings == ()


def test_the_same_arrays_make_the_same_npz_bytes(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.npz" for name in ("a", "b")]
    for path in paths:
        write(path, ARRAYS, axes=AXES, settings=SETTINGS, texts=TEXTS)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_bfloat16_is_rounded_to_nearest_even(tmp_path: Path) -> None:
    edge = np.array([1 + 2**-8, 1 + 3 * 2**-8, np.nan, -np.inf, 3.4e38, -0.0], np.float32)
    values = np.concatenate([edge, RNG.standard_normal(1000).astype(np.float32)]).reshape(2, -1).T
    path = tmp_path / "x.safetensors"
    write(path, {"x": values, "y": values}, dtypes={"x": "bfloat16"})
    with safe_open(path, "pt") as file:
        x = file.get_tensor("x")
    assert x.dtype == torch.bfloat16
    expected = torch.from_numpy(values.copy()).bfloat16()
    np.testing.assert_array_equal(x.float().numpy(), expected.float().numpy())
    dump = read(str(path))
    assert dict(dump.dtypes) == {"x": "bfloat16", "y": "float32"}
    np.testing.assert_array_equal(dump.arrays["x"], expected.float().numpy(), strict=True)


def test_bfloat16_in_npz_is_the_float32_it_lies_in(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    write(path, {"x": np.ones(3, np.float32)}, dtypes={"x": "bfloat16"})
    assert dict(read(str(path)).dtypes) == {"x": "float32"}


def test_safetensors_are_read_by_their_own_library(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write(path, ARRAYS, settings=SETTINGS, texts={"tokens": ["我"]}, axes=AXES)
    with safe_open(path, "np") as file:
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(file.get_tensor(name), array)
        metadata = file.metadata()
    assert json.loads(metadata["settings"]) == SETTINGS
    assert json.loads(metadata["tokens"]) == ["我"]
    assert json.loads(metadata["axes"]) == {"weights": list(AXES["weights"])}


def test_npz_is_read_by_numpy(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    write(path, {**ARRAYS, "file": np.arange(3)}, settings=SETTINGS)
    with np.load(path) as held:
        assert json.loads(str(held["settings"])) == SETTINGS
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(held[name], array)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_is_overwritten_only_when_told(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(b"mine")
    with pytest.raises(InputError) as caught:
        write(path, ARRAYS)
    assert caught.value.message == f"{path}: already exists"
    assert "--force" in caught.value.hint
    assert path.read_bytes() == b"mine"
    write(path, {"x": np.ones(2)}, force=True)
    np.testing.assert_array_equal(read(str(path)).arrays["x"], [1, 1])
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_written_through(tmp_path: Path) -> None:
    target, link = tmp_path / "target.npz", tmp_path / "link.npz"
    target.write_bytes(b"")
    link.symlink_to(target)
    write(link, {"x": np.ones(2)}, force=True)
    assert link.is_symlink()
    np.testing.assert_array_equal(read(str(target)).arrays["x"], [1, 1])


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(file: IO[bytes], *_: Any) -> None:
        file.write(b"half of it")
        raise error

    monkeypatch.setitem(WRITERS, ".npz", fail)
    path = tmp_path / "x.npz"
    path.write_bytes(b"before")
    with pytest.raises((InputError, KeyboardInterrupt)) as caught:
        write(path, ARRAYS, force=True)
    if isinstance(error, OSError):
        assert str(caught.value) == f"{path}: cannot be written: No space left on device"
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="needs files without a name")
def test_a_write_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, numpy as np\n"
        "from pathlib import Path\n"
        "from attn_cli.formats import write as it\n"
        "def half(file, *_):\n"
        "    file.write(b'half'); file.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "it.WRITERS['.npz'] = half\n"
        "it.write(Path(sys.argv[1]), {'x': np.ones(2)})\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path / "x.npz")], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []


def test_files_without_a_name_are_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attn_cli.formats.write.OPEN_FILES", tmp_path / "none")
    write(tmp_path / "x.npz", {"x": np.ones(2)})
    np.testing.assert_array_equal(read(str(tmp_path / "x.npz")).arrays["x"], [1, 1])
    assert list(tmp_path.iterdir()) == [tmp_path / "x.npz"]


@pytest.mark.parametrize(
    "name, message",
    [
        ("x.json", "attn writes .safetensors and .npz files only"),
        ("x", "attn writes .safetensors and .npz files only"),
        ("none/x.npz", "its folder does not exist"),
        ("folder.npz", "is a directory"),
        ("pipe.npz", "is not a regular file"),
        ("\x1b.png", r"\x1b.png: attn writes"),
    ],
)
def test_targets_that_cannot_be_written(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder.npz").mkdir()
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(InputError) as caught:
        check_target(tmp_path / name, force=True)
    assert message in caught.value.message
    assert str(caught.value).isprintable()


def test_a_folder_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    with pytest.raises(InputError, match="its folder cannot be written to"):
        write(tmp_path / "x.npz", ARRAYS)
    assert list(tmp_path.iterdir()) == []


def test_names_that_mean_something_else(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="an array cannot be called 'settings'"):
        write(tmp_path / "x.npz", {"settings": np.ones(2)})
    with pytest.raises(InputError, match="an array cannot be called 'tokens'"):
        write(tmp_path / "x.npz", {"tokens": np.ones(2)}, texts={"tokens": ["a", "b"]})


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_dtypes_that_are_not_written(tmp_path: Path, suffix: str) -> None:
    for array in (np.array([1j]), np.array(["a"]), np.array([None])):
        with pytest.raises(UnsupportedError, match="which is not written"):
            write(tmp_path / f"x{suffix}", {"x": array})
    assert list(tmp_path.iterdir()) == []
