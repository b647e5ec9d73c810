"""read: which file it is, whether it can be read at all, and what the result says of it."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path

import numpy as np
import pytest

from attn_cli.errors import InputError
from attn_cli.formats import READERS, read
from tests.unit.formats.conftest import Put

ROWS = b"[[1, 2], [3, 4]]"


def test_dump_says_where_it_comes_from(put: Put) -> None:
    path = put("x.json", ROWS)
    dump = read(path)
    assert (dump.source, dump.format, dump.unnamed) == (path, "json", True)
    assert dump.sha256 == hashlib.sha256(ROWS).hexdigest()
    np.testing.assert_array_equal(dump.arrays["x"], [[1, 2], [3, 4]])


def test_suffix_may_be_in_capitals(put: Put) -> None:
    assert read(put("X.JSON", ROWS)).format == "json"


@pytest.mark.parametrize("source", ["-", "/dev/stdin"])
def test_standard_input_is_json(source: str) -> None:
    dump = read(source, stdin=io.BytesIO(ROWS))
    assert (dump.source, dump.format) == (source, "json")
    assert dump.sha256 == hashlib.sha256(ROWS).hexdigest()


def test_pipe_of_the_shell_is_json() -> None:
    reading, writing = os.pipe()
    os.write(writing, ROWS)
    os.close(writing)
    try:
        assert read(f"/dev/fd/{reading}").arrays["x"].shape == (2, 2)
    finally:
        os.close(reading)


def test_nothing_on_standard_input() -> None:
    with pytest.raises(InputError, match="standard input: nothing came through it"):
        read("-", stdin=io.BytesIO())


def test_endless_standard_input_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attn_cli.formats.text_file.LONGEST", 10)
    with pytest.raises(InputError, match=r"\.safetensors"):
        read("-", stdin=io.BytesIO(ROWS))


def test_error_on_standard_input_names_it() -> None:
    with pytest.raises(InputError) as caught:
        read("-", stdin=io.BytesIO(b"[[1, 2], [3]]"))
    assert caught.value.message == "standard input: row 1 has 1 number, row 0 has 2"


@pytest.mark.parametrize(
    "missing, meant",
    [
        ("aple.json", "did you mean 'apple.json'?"),
        ("apple", "did you mean 'apple.json'?"),
        ("Tokens.tsv", "did you mean 'tokens.csv'?"),
        ("zebra.npy", ""),
    ],
)
def test_missing_file_suggests_a_near_one(put: Put, missing: str, meant: str) -> None:
    for name in ("apple.json", "tokens.csv", "apple.txt"):
        folder = Path(put(name, ROWS)).parent
    with pytest.raises(InputError) as caught:
        read(str(folder / missing))
    assert caught.value.message == f"{folder / missing}: no such file"
    assert caught.value.hint == meant


@pytest.mark.parametrize("missing", ["none/x.json", "file.json/x.json"])
def test_missing_folder_is_said(put: Put, missing: str) -> None:
    folder = Path(put("file.json", ROWS)).parent
    with pytest.raises(InputError, match="its folder does not exist either"):
        read(str(folder / missing))


def test_directory_lists_what_can_be_read_in_it(put: Put) -> None:
    folder = Path(put("b.npz", ROWS)).parent
    put("a.json", ROWS)
    put("notes.txt", ROWS)
    with pytest.raises(InputError) as caught:
        read(str(folder))
    assert caught.value.message == f"{folder}: is a directory"
    assert caught.value.hint == "it holds 'a.json', 'b.npz'"


def test_unknown_suffix_lists_the_known(put: Put) -> None:
    with pytest.raises(InputError) as caught:
        read(put("x.jsn", ROWS))
    assert caught.value.message.endswith("attn does not read .jsn files")
    assert caught.value.hint == f"did you mean '.json'? known: {', '.join(READERS)}"


def test_file_without_suffix(put: Put) -> None:
    with pytest.raises(InputError, match="has no suffix that says its format"):
        read(put("tokens", ROWS))


@pytest.mark.parametrize("suffix", list(READERS))
def test_empty_file(put: Put, suffix: str) -> None:
    with pytest.raises(InputError, match="the file is empty"):
        read(put(f"x{suffix}", b""))


def test_named_pipe_is_refused_unopened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.json")  # opening it would wait for ever
    with pytest.raises(InputError, match="is not a regular file"):
        read(str(tmp_path / "x.json"))


def test_device_is_refused() -> None:
    with pytest.raises(InputError, match="is not a regular file"):
        read("/dev/zero")


def test_link_to_itself(tmp_path: Path) -> None:
    (tmp_path / "x.json").symlink_to(tmp_path / "x.json")
    with pytest.raises(InputError, match="leads back to itself"):
        read(str(tmp_path / "x.json"))


def test_link_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.json").symlink_to(tmp_path / "y.json")
    with pytest.raises(InputError, match=r"x\.json: is a link to a file that does not exist"):
        read(str(tmp_path / "x.json"))


def test_link_is_followed(put: Put, tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(put("x.json", ROWS))
    assert read(str(tmp_path / "link.json")).arrays["x"].shape == (2, 2)


@pytest.mark.parametrize(
    "source, said",
    [
        ("", "'': is an empty name where that of a file is expected"),
        ("a\0b.json", r"a\x00b.json: no file can have this name"),
        (f"{'x' * 300}.json", "cannot be read: File name too long"),
        ("\x1b[31m\u202e.json", r"\x1b[31m\u202e.json: no such file"),
    ],
)
def test_impossible_names(source: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read(source)
    assert said in str(caught.value)
    assert str(caught.value).isprintable()


def test_file_that_may_not_be_read(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put("x.json", ROWS)

    def deny(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", deny)  # root may read everything, so no mode will do
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == f"{path}: cannot be read: Permission denied"
