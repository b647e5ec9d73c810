"""Files ↔ arrays, one format a file. To add one: a file with `read`, `headers`, and a line here."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import BinaryIO

from attn_cli.core.dump import Dump
from attn_cli.core.registry import Registry
from attn_cli.errors import InputError
from attn_cli.formats import folder
from attn_cli.formats.content import Content
from attn_cli.formats.source import digest, is_pipe, locate, naming

Reader = Callable[[Path], Content]

READERS: Registry[Reader] = Registry(
    "format",
    {
        ".json": "attn_cli.formats.json_file:read",
        ".csv": "attn_cli.formats.csv_file:read",
        ".tsv": "attn_cli.formats.csv_file:read",
        ".npy": "attn_cli.formats.npy_file:read",
        ".npz": "attn_cli.formats.npz_file:read",
        ".safetensors": "attn_cli.formats.safetensors_file:read",
        ".pt": "attn_cli.formats.torch_pt:read",
        ".pth": "attn_cli.formats.torch_pt:read",
    },
)


def read(source: str, *, stdin: BinaryIO | None = None) -> Dump:
    """What a file holds, by the suffix of its name; "-" is JSON on standard input.

    A folder is its .npy files, each array called as its file. A pipe that the shell opened
    (`<(command)`, /dev/stdin) is read as JSON too. InputError names the source once and says what
    is wrong with it; UnsupportedError where it holds what attn cannot compute with.
    """
    with naming(source):
        content, sha256 = _pipe(source, stdin) if is_pipe(source) else _file(source)
    return _dump(source, content, sha256)


def read_headers(source: str, *, stdin: BinaryIO | None = None) -> Dump:
    """What `read` gives, as far as headers tell it: arrays have shape and dtype, and are blank.

    Of numbers that are written out as text (JSON, CSV) nothing is left away. The file is not
    hashed: `sha256` is empty. Raises what `read` raises, but for what only the numbers show.
    """
    if is_pipe(source):
        return read(source, stdin=stdin)
    with naming(source):
        path, suffix = locate(source, READERS.entries)
        content = headers_reader(suffix)(path)
    return _dump(source, content, "")


def headers_reader(suffix: str) -> Reader:
    """What reads the headers of files with this suffix: `headers` beside the format's `read`."""
    module, _ = READERS.entries[suffix].split(":")
    reader: Reader = import_module(module).headers
    return reader


def _dump(source: str, content: Content, sha256: str) -> Dump:
    if not content.arrays:
        with naming(source):
            raise InputError("holds no arrays of numbers")
    return Dump(
        source=source,
        format=content.format,
        arrays=content.arrays,
        dtypes=content.dtypes,
        sha256=sha256,
        unnamed=content.unnamed,
        texts=content.texts,
        settings=content.settings,
        axes=content.axes,
        strings=content.strings,
        others=content.others,
        findings=content.findings,
    )


def _file(source: str) -> tuple[Content, str]:
    if source and folder.is_dump(Path(source)):
        return folder.read_folder(Path(source))
    path, suffix = locate(source, READERS.entries)
    return READERS[suffix](path), digest(path)


def _pipe(source: str, stdin: BinaryIO | None) -> tuple[Content, str]:
    from attn_cli.formats.json_file import parse_bytes
    from attn_cli.formats.text_file import read_bytes

    if source.startswith("/dev/fd/"):
        with Path(source).open("rb") as stream:
            content = read_bytes(stream)
    else:
        content = read_bytes(stdin or sys.stdin.buffer)
    if not content:
        raise InputError("nothing came through it")
    return parse_bytes(content), hashlib.sha256(content).hexdigest()
