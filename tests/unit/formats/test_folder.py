"""A folder of .npy files as one dump, and what folders may hold instead."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from attn_cli.errors import InputError
from attn_cli.formats import read

Q, WEIGHTS = np.arange(6.0).reshape(2, 3), np.eye(2, dtype=np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "dump"
    made.mkdir()
    np.save(made / "q.npy", Q)
    np.save(made / "weights.npy", WEIGHTS)
    return made


def test_every_file_is_an_array_called_as_it_is(folder: Path) -> None:
    dump = read(str(folder))
    assert (dump.source, dump.format, dump.unnamed) == (str(folder), "npy", False)
    np.testing.assert_array_equal(dump.arrays["q"], Q)
    np.testing.assert_array_equal(dump.arrays["weights"], WEIGHTS)
    assert dump.dtypes == {"q": "float64", "weights": "float32"}


def test_other_files_and_folders_are_named_and_not_read(folder: Path) -> None:
    (folder / "notes.txt").write_text("q is rotated")
    (folder / "more").mkdir()
    said = [finding for finding in read(str(folder)).findings if finding.code == "ignored-member"]
    assert "'more', 'notes.txt'" in said[0].message


def test_the_digest_changes_with_names_and_numbers(folder: Path) -> None:
    first = read(str(folder)).sha256
    assert read(str(folder)).sha256 == first
    (folder / "q.npy").rename(folder / "k.npy")
    renamed = read(str(folder)).sha256
    np.save(folder / "k.npy", Q + 1)
    assert len({first, renamed, read(str(folder)).sha256}) == 3


def test_a_file_that_is_damaged_is_named(folder: Path) -> None:
    whole = (folder / "q.npy").read_bytes()
    (folder / "q.npy").write_bytes(whole[:-8])
    with pytest.raises(InputError, match=r"dump: 'q.npy': the header claims"):
        read(str(folder))
    (folder / "q.npy").write_bytes(b"")
    with pytest.raises(InputError, match=r"'q\.npy' is empty"):
        read(str(folder))


def test_object_arrays_are_never_loaded(folder: Path) -> None:
    np.save(folder / "k.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="pickle"):
        read(str(folder))


def test_a_pipe_with_the_name_of_an_array_is_refused_without_waiting(folder: Path) -> None:
    os.mkfifo(folder / "k.npy")
    with pytest.raises(InputError, match=r"'k\.npy' is not a regular file"):
        read(str(folder))


def test_two_files_of_one_name_are_refused(folder: Path) -> None:
    np.save(folder / "q", Q)
    (folder / "q.npy").rename(folder / "w.NPY")
    np.save(folder / "w.npy", Q)
    if len({entry.name for entry in folder.iterdir()}) < 3:
        pytest.skip("this file system does not tell the two names apart")
    with pytest.raises(InputError, match="'w' 2 times"):
        read(str(folder))


def test_a_folder_without_arrays_is_a_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a directory"):
        read(str(tmp_path))
