"""A folder of .npy files → named arrays: what a program dumps stage by stage."""

from __future__ import annotations

import hashlib
import stat
from collections import Counter
from pathlib import Path

from attn_cli.core.findings import note
from attn_cli.errors import InputError
from attn_cli.formats import npy_file
from attn_cli.formats.content import Content
from attn_cli.formats.names import listed, quoted
from attn_cli.formats.raw import MAPPED, check_fits
from attn_cli.formats.source import digest

MOST = 10_000  # files; a folder with more is no dump


def read_folder(path: Path) -> tuple[Content, str]:
    """The arrays of a folder's .npy files, each called as its file is, and a digest of them all.

    Other files are named in a note; folders in it are not entered. InputError names the file that
    is no regular one or that cannot be read, and refuses more than memory can take.
    """
    files, others = _files(path)
    sizes = (file.stat().st_size for file in files.values())
    check_fits(sum(size for size in sizes if size < MAPPED))  # larger ones are mapped, or checked
    read = {name: _one(file) for name, file in files.items()}
    total = hashlib.sha256()
    for name, file in files.items():
        total.update(f"{name}\0{digest(file)}\0".encode(errors="surrogateescape"))
    said = [finding for content in read.values() for finding in content.findings]
    if others:
        said.append(note("ignored-member", f"not read, since they are no .npy: {listed(others)}"))
    return (
        Content(
            "npy",
            {name: content.arrays["x"] for name, content in read.items()},
            {name: content.dtypes["x"] for name, content in read.items()},
            findings=tuple(said),
        ),
        total.hexdigest(),
    )


def is_dump(path: Path) -> bool:
    """Whether `path` is a folder that holds some .npy file."""
    return path.is_dir() and any(map(_is_npy, path.iterdir()))


def _is_npy(entry: Path) -> bool:
    return entry.suffix.lower() == ".npy"


def _files(path: Path) -> tuple[dict[str, Path], list[str]]:
    """The .npy files by their names without suffix, and the names of what else is there."""
    entries = sorted(path.iterdir())
    if len(entries) > MOST:
        raise InputError(f"is a folder of {len(entries):,} files; at most {MOST:,} are a dump")
    files = [entry for entry in entries if _is_npy(entry)]
    for file in files:
        if not stat.S_ISREG(file.stat().st_mode):
            raise InputError(f"its {quoted(file.name)} is not a regular file")
    name, times = Counter(file.stem for file in files).most_common(1)[0]
    if times > 1:
        raise InputError(f"holds the name {quoted(name)} {times} times")
    return {file.stem: file for file in files}, [e.name for e in entries if not _is_npy(e)]


def _one(file: Path) -> Content:
    if not file.stat().st_size:
        raise InputError(f"its {quoted(file.name)} is empty")
    try:
        return npy_file.read(file)
    except InputError as error:
        raise InputError(f"{quoted(file.name)}: {error.message}", error.hint) from error
